package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
)

func newClusters() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clusters",
		Short: "Show and change this cluster's part in its cluster set",
	}
	cmd.AddCommand(newClustersShow())
	return cmd
}

func newClustersShow() *cobra.Command {
	var f files
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print what other clusters write into their ClusterSet to make this one a member",
		Long: `Print what other clusters write into their ClusterSet, below spec.members, to make this one a member: its name, its address and
its CA certificates. Nothing of it is secret. A penstock up or serve that runs, or has run, for a folder with a ClusterSet has made it.`,
		Example: `  penstock clusters show -f ./config`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := f.stateDir()
			if err != nil {
				return err
			}
			text, err := os.ReadFile(clusterset.MemberFile(dir))
			if errors.Is(err, fs.ErrNotExist) {
				return errors.New("this cluster takes part in no cluster set: write a ClusterSet, and start penstock up or serve with --members-listen")
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), string(text))
			return err
		},
	}
	f.flags(cmd, "required")
	return cmd
}
