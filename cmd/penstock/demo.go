package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/demo"
	"github.com/penstock-project/penstock/xds/supervisor"
)

func newDemo() *cobra.Command {
	var keep, set, engines bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show everything on this machine: two clusters, simulated model servers, eleven steps",
		Long: `Show what Penstock does, on this machine and without a GPU: a gateway with two pools of simulated model
servers, a second cluster whose pool is imported in both routing modes, a streamed response, a split by weight, a
spill when the local pool is full, and API keys with their usage. Each step prints which server answered, and why, and
checks its result: the exit status is 1 if one of them fails. Some steps compare times, and fail on a machine that has
no CPU to spare. The demo uses free ports on loopback and leaves nothing behind.

With --cluster-set it shows three clusters that exchange pools: one annotates a pool and another serves with it, a
cluster is drained without an error and brought back, and the Penstock of one stops while requests go on.

With --engines it shows model servers that Penstock starts: one starts from a file, requires a key, changes under load
without a failed request, and gives its accelerator to a second model and gets it back.`,
		Example: `  penstock demo

  # Keep it running until Ctrl-C, with requests to try and files to edit.
  penstock demo --keep

  # Three clusters that exchange pools.
  penstock demo --cluster-set

  # Model servers that start, change, take turns and end.
  penstock demo --engines`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			envoy, err := supervisor.Find(cmd.Context())
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			err = demo.Run(cmd.Context(), demo.Config{
				ClusterSet: set, Engines: engines,
				Penstock: binary, Typed: os.Args[0], Env: []string{"ENVOY=" + envoy.Path},
				Envoy: envoy.Version, Keep: keep, Out: out, Colour: wantsColour(out), Ask: get,
			})
			switch {
			case errors.Is(err, demo.ErrFailed):
				return exitCode(1)
			case err != nil && errors.Is(err, context.Cause(cmd.Context())):
				return errors.New("the demo was interrupted")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&set, "cluster-set", false, "show a cluster set instead: pools that clusters exchange")
	cmd.Flags().BoolVar(&engines, "engines", false, "show model servers that Penstock starts instead")
	cmd.MarkFlagsMutuallyExclusive("cluster-set", "engines")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep everything running after the last step, until Ctrl-C")
	return cmd
}

// wantsColour follows https://no-color.org.
func wantsColour(out io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(out)
}
