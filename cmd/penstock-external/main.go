package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/internal/external"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "penstock-external:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "penstock-external",
		Short:   "Run a small external processor, router or token store, for pools with picker.processor",
		Version: external.Release(),
		Long: `Run one of the services that a pool with picker.processor works with: a processor, which tokenizes prompts; a router, which
chooses workers by token IDs; and a token store, from which workers fetch token IDs. They are small, hold nothing on disk, and show
the protocol; the Helm chart in manifests/charts/external deploys them, and each can be replaced by a program of your own.

Each serves GET /healthz, /version and /metrics beside its own path, and does not use a peer of another minor release.`,
		SilenceUsage:  true, // a failed run prints its error, not all flags
		SilenceErrors: true, // main prints them, once
	}
	root.AddCommand(newProcessor(), newRouter(), newTokens())
	return root
}
