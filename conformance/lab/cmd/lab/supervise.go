//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/penstock-project/penstock/conformance/lab/cluster"
	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/network"
)

func newSupervise() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise DIR",
		Short:  "run the clusters of a lab",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			report := os.NewFile(readyFD, "ready")
			err := supervise(cmd.Context(), args[0], report)
			if err != nil {
				fmt.Fprintf(report, "%v\x00", err)
			}
			return err
		},
	}
}

func supervise(ctx context.Context, dir string, report io.Writer) error {
	s, err := load(dir)
	if err != nil {
		return err
	}
	if s.Check {
		if err := s.try(); err != nil {
			return err
		}
		_, err := io.WriteString(report, "ready\x00")
		return err
	}
	clusters, err := s.clusters(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if s.Lifeline {
		ended := make(chan struct{})
		go func() { // ends at EOF or with this process; a lab that fails does not wait for this goroutine
			defer close(ended)
			_, _ = io.Copy(io.Discard, os.NewFile(lifelineFD, "lifeline"))
		}()
		g.Go(func() error {
			select {
			case <-ended:
				return errors.New("the process that started the lab has ended")
			case <-ctx.Done():
				return nil
			}
		})
	}
	for _, c := range clusters {
		g.Go(func() error { return c.Run(ctx) })
	}
	g.Go(func() error { return newLinks(clusters).serve(ctx, s.Dir) })
	g.Go(func() error {
		for _, c := range clusters {
			select {
			case <-ctx.Done():
				return nil
			case <-c.Ready():
			}
		}
		if err := s.merge(clusters); err != nil {
			return err
		}
		_, err := io.WriteString(report, "ready\x00")
		return err
	})
	return g.Wait()
}

func (s state) clusters(log *slog.Logger) ([]*cluster.Cluster, error) {
	outside, err := network.Current()
	if err != nil {
		return nil, err
	}
	var all []*cluster.Cluster
	for i := range s.Clusters {
		node, plan, err := network.NewNode(outside)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("lab%d", i+1)
		for _, other := range all {
			if err := network.JoinNodes(node, plan, other.Node, other.Plan); err != nil {
				return nil, fmt.Errorf("join %s and %s: %w", name, other.Name, err)
			}
		}
		if err := s.note(plan.Link()); err != nil {
			return nil, err
		}
		all = append(all, cluster.New(cluster.Config{
			Name: name, Dir: filepath.Join(s.Dir, name), Private: filepath.Join(private, name),
			Tools: s.Tools, Node: node, Plan: plan, CRDs: s.CRDs, Audit: s.Audit, Log: log.With("cluster", name),
			Images: image.Open(s.images()), Self: "/proc/self/exe", Become: []string{"container"},
		}))
	}
	return all, nil
}

func (s state) merge(clusters []*cluster.Cluster) error {
	var files []string
	for _, c := range clusters {
		files = append(files, c.Kubeconfig())
	}
	config, err := (&clientcmd.ClientConfigLoadingRules{Precedence: files}).Load()
	if err == nil {
		err = clientcmd.WriteToFile(*config, s.kubeconfig())
	}
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}
