package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const usage = "usage: release image|dist|push [flags]; release image -help lists the flags"

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ExitOnError)
	switch args[0] {
	case "image":
		tag := flags.String("tag", "", "name of the image, as REGISTRY/NAME:TAG (required)")
		out := flags.String("out", "", "folder to write; one that this program wrote is replaced (required)")
		push := flags.Bool("push", false, "push the image, with the credentials of docker login or podman login")
		flags.Usage = func() {
			fmt.Fprintln(flags.Output(), "usage: release image -tag NAME -out FOLDER [-push] OS/ARCH=PROGRAM...")
			flags.PrintDefaults()
		}
		_ = flags.Parse(args[1:]) // an error ends the process
		return run(*tag, *out, *push, flags.Args())
	case "dist":
		var d dist
		list := flags.String("platforms", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64",
			"platforms of the programs")
		flags.StringVar(&d.version, "version", "", "version of the charts, such as 0.1.0 (required)")
		flags.StringVar(&d.source, "source", ".", "root of the source tree")
		flags.StringVar(&d.programs, "programs", "bin/release",
			"folder with the programs of each platform: OS-ARCH/penstock and, for Linux, penstock-external")
		flags.StringVar(&d.modules, "modules", "bin/release/modules.txt",
			"file with a line for each module in the programs: NAME@VERSION, a tab, its folder")
		flags.StringVar(&d.wheels, "wheels", ".tools/wheels", "folder with the wheels of Envoy")
		flags.StringVar(&d.out, "out", "dist", "folder to write; one that this program wrote is replaced")
		flags.StringVar(&d.key, "key", "",
			"file with an ECDSA key (PEM, not encrypted) that signs the checksums and the images; empty: not signed")
		_ = flags.Parse(args[1:])
		for _, text := range strings.Fields(*list) {
			platform, err := v1.ParsePlatform(text)
			if err != nil {
				return err
			}
			d.platforms = append(d.platforms, *platform)
		}
		return d.run()
	case "push":
		dir := flags.String("dist", "dist",
			"folder of a release; its images are pushed with the credentials of docker login or podman login")
		_ = flags.Parse(args[1:])
		return pushDist(*dir)
	}
	return fmt.Errorf("unknown command %q; %s", args[0], usage)
}
