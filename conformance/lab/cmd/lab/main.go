//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lab",
		Short: "Real Kubernetes clusters on one Linux machine, without containers",
		Long: `Lab runs etcd and the programs of Kubernetes as processes, with a container runtime that runs the
processes of pods directly: an image name stands for a program of this machine. As root, clients on this machine reach
the API server, pods and LoadBalancer addresses. Without root everything runs in a user namespace, and "lab exec" runs
clients there.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newCheck(),
		newUp(),
		newDown(),
		newExec(),
		newLink(),
		newLoad(),
		newImages(),
		newInit(),
		newSupervise(),
		newContainer(),
	)
	return root
}
