//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/conformance/lab/network"
)

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "check that a lab can start on this machine",
		Long: `Check creates what a lab needs, and removes it again: namespaces, a pair of network interfaces and
nftables rules. It needs only this program and nft, and takes less than a second. It fails if something is missing,
and names it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return check(cmd.Context()) },
	}
}

func check(ctx context.Context) (err error) {
	if err := needsNft(); err != nil {
		return err
	}
	s := state{Check: true, Clusters: 1, Rootless: os.Geteuid() != 0}
	if s.Dir, err = os.MkdirTemp("", "lab-check"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.Dir)) }()
	if err := s.save(); err != nil {
		return err
	}
	ready, lifeline, _, err := s.start()
	if err != nil {
		return err
	}
	defer lifeline.Close()
	return errors.Join(s.await(ctx, ready), s.end())
}

func (s state) try() error {
	outside, err := network.Current()
	if err != nil {
		return err
	}
	defer outside.Close()
	node, plan, err := network.NewNode(outside)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := s.note(plan.Link()); err != nil {
		return err
	}
	return node.Do(func() error {
		nft := exec.Command("nft", "-f", "-")
		nft.Stdin = strings.NewReader(
			"table ip lab-check { chain nat { type nat hook prerouting priority dstnat; }; }\n")
		if out, err := nft.CombinedOutput(); err != nil {
			return fmt.Errorf("nftables, which kube-proxy needs: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}
