//go:build linux

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func newDown() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "end a lab and remove everything it created",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := load(dir)
			if err != nil {
				return err
			}
			if err := s.end(); err != nil {
				return err
			}
			if err := os.RemoveAll(s.Dir); err != nil {
				return fmt.Errorf("remove the lab's folder: %w", err)
			}
			return nil
		},
	}
	addDir(cmd, &dir)
	return cmd
}
