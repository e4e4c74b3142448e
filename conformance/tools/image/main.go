package main

import (
	"archive/tar"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	tag := flag.String("tag", "", "name of the image, as REGISTRY/NAME:TAG (required)")
	out := flag.String("out", "", "folder to write; an existing one is replaced (required)")
	push := flag.Bool("push", false, "push the image, with the credentials of docker login or podman login")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: image -tag NAME -out FOLDER [-push] OS/ARCH=PROGRAM...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*tag, *out, *push, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(tag, out string, push bool, programs []string) error {
	ref, err := name.ParseReference(tag)
	if err != nil || out == "" || len(programs) == 0 {
		return errors.Join(errors.New("name the image, the folder and a program: see -help"), err)
	}
	var all []*built
	for _, p := range programs {
		text, path, _ := strings.Cut(p, "=")
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return err
		}
		b, err := build(*platform, path)
		if err != nil {
			return err
		}
		all = append(all, b)
	}
	digest, err := write(out, tag, all)
	if err != nil {
		return err
	}
	if push {
		whole, err := index(all)
		if err == nil {
			err = remote.WriteIndex(ref, whole, remote.WithAuthFromKeychain(authn.DefaultKeychain))
		}
		if err != nil {
			return fmt.Errorf("push %s: %w", tag, err)
		}
	}
	fmt.Printf("%s@%s\n", tag, digest)
	return nil
}

// write fills a folder: layout (the OCI layout), rootfs of each platform, its SBOM, and values.yaml for the chart.
func write(dir, tag string, all []*built) (v1.Hash, error) {
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	whole, err := index(all)
	if err != nil {
		return v1.Hash{}, err
	}
	digest, err := whole.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	place := filepath.Join(dir, "layout")
	to, err := layout.Write(place, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := to.AppendIndex(whole, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
		return v1.Hash{}, err
	}
	for _, b := range all {
		platform := strings.ReplaceAll(b.platform.String(), "/", "-")
		if err := os.WriteFile(filepath.Join(dir, "sbom-"+platform+".cdx.json"), b.sbom, 0o644); err != nil {
			return v1.Hash{}, err
		}
		if err := unpack(place, digest, b, filepath.Join(dir, "rootfs-"+platform)); err != nil {
			return v1.Hash{}, err
		}
	}
	values := fmt.Sprintf("image: %s\nimageDigest: %s\n", tag, digest)
	return digest, os.WriteFile(filepath.Join(dir, "values.yaml"), []byte(values), 0o644)
}

// unpack writes the files of an image, as the layout has them.
func unpack(place string, whole v1.Hash, b *built, dir string) error {
	hash, err := b.image.Digest()
	if err != nil {
		return err
	}
	all, err := layout.ImageIndexFromPath(place)
	if err == nil {
		all, err = all.ImageIndex(whole)
	}
	if err != nil {
		return err
	}
	img, err := all.Image(hash)
	if err != nil {
		return err
	}
	files := mutate.Extract(img)
	defer files.Close()
	for r := tar.NewReader(files); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path, mode := filepath.Join(dir, header.Name), header.FileInfo().Mode()
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, mode.Perm())
			}
		}
		if err == nil {
			err = os.Chmod(path, mode)
		}
		if err != nil {
			return err
		}
	}
}
