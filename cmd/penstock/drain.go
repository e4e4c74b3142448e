package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/xds/fleet/drain"
)

func newDrain() *cobra.Command {
	var c drain.Config
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Drain an Envoy, and wait until its requests have ended",
		Long: `Drain an Envoy, and wait until its requests have ended. Envoy fails its health checks and closes each
connection with the next response; the command returns when nothing is in flight. Fleets in Kubernetes run it before a
proxy stops (preStop).`,
		Example: `  penstock drain --admin /run/penstock/admin.sock --timeout 10m`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := drain.Drain(cmd.Context(), c)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Admin, "admin", "", "path of the socket of Envoy's admin interface (required)")
	f.DurationVar(&c.Timeout, "timeout", 0, "longest time that the drain takes (default 10m)")
	f.DurationVar(&c.Settle, "settle", 0,
		"shortest time that the drain takes, so that load balancers notice the failed health check (default 10s)")
	f.DurationVar(&c.Quiet, "quiet", 0, "how long to wait for idle connections after the last request has ended, and "+
		"after the last datagram (default 5s)")
	_ = cmd.MarkFlagRequired("admin")
	return cmd
}

func newCopy() *cobra.Command {
	return &cobra.Command{
		Use:     "copy PATH",
		Short:   "Copy this program to a path, for a container that has no shell",
		Example: `  penstock copy /opt/penstock/penstock`,
		Args:    takes(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return copyProgram(self, args[0])
		},
	}
}

// copyProgram replaces the target atomically, so that no partly written program runs.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".penstock-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copy to %s: %w", to, err)
	}
	if err := out.Chmod(0o755); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
