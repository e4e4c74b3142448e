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
		Short: "Have an Envoy end its work, and wait until it has",
		Long: `Have an Envoy end its work, and wait until it has: it fails its health checks, ends each connection with the next
answer, and is left when nothing is under way. Fleets in Kubernetes run it before they stop a proxy (preStop).`,
		Example: `  penstock drain --admin /run/penstock/admin.sock --timeout 10m`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return drain.Drain(cmd.Context(), c) },
	}
	f := cmd.Flags()
	f.StringVar(&c.Admin, "admin", "", "socket of Envoy's admin interface (required)")
	f.DurationVar(&c.Timeout, "timeout", 0, "how long it may take at most (default 10m)")
	f.DurationVar(&c.Settle, "settle", 0, "how long it takes at least: until load balancers know (default 10s)")
	f.DurationVar(&c.Quiet, "quiet", 0, "how long to wait for connections on which nothing happens (default 5s)")
	_ = cmd.MarkFlagRequired("admin")
	return cmd
}

// newCopy is for containers without a shell, in which penstock drain shall run.
func newCopy() *cobra.Command {
	return &cobra.Command{
		Use:     "copy PATH",
		Short:   "Copy this program to a path, for a container that has no shell",
		Example: `  penstock copy /opt/penstock/penstock`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return copyProgram(self, args[0])
		},
	}
}

// copyProgram replaces the target in one step: half a program is never there.
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
