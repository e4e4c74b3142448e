//go:build linux

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/conformance/lab/image"
)

func newLoad() *cobra.Command {
	var dir string
	var img image.Image
	cmd := &cobra.Command{
		Use:   "load NAME PROGRAM",
		Short: "map an image name to a program of this machine",
		Long: `Load maps an image name to a program of this machine. A name without a tag stands for all its tags; a
name without a registry stands for the repository in any registry. It applies to containers that start from now on,
in all clusters of the lab.`,
		Example: `  lab load ghcr.io/penstock-project/penstock bin/penstock
  lab load envoyproxy/envoy .tools/bin/envoy --path /usr/local/bin/envoy`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := load(dir)
			if err != nil {
				return err
			}
			img.Name, img.Program = args[0], args[1]
			return image.Open(s.images()).Load(img)
		},
	}
	addDir(cmd, &dir)
	cmd.Flags().StringVar(&img.Path, "path", "",
		"path of the program in the image (default: /usr/local/bin/ and the file's name)")
	cmd.Flags().StringArrayVar(&img.First, "first", nil,
		"an argument that goes before the container's args, like arguments of an image's entry point (repeatable)")
	cmd.Flags().StringArrayVar(&img.Args, "arg", nil,
		"an argument for containers without args of their own (repeatable)")
	cmd.Flags().Int64Var(&img.User, "user", 0, "the user ID that it runs as, unless the pod sets one")
	cmd.Flags().StringArrayVar(&img.Env, "env", nil, "NAME=value, for containers that do not set it (repeatable)")
	return cmd
}

func newImages() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "images",
		Short: "list which image stands for which program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := load(dir)
			if err != nil {
				return err
			}
			list, err := image.Open(s.images()).List()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			for _, i := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\n", i.Name, i.At(), i.Program)
			}
			return w.Flush()
		},
	}
	addDir(cmd, &dir)
	return cmd
}
