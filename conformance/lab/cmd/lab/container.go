//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/conformance/lab/sandbox"
)

func newContainer() *cobra.Command {
	return &cobra.Command{
		Use:    "container",
		Short:  "become a container",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(*cobra.Command, []string) error { return sandbox.Become() },
	}
}
