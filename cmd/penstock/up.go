package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/fleet"
	"github.com/penstock-project/penstock/cmd/penstock/internal/plane"
	"github.com/penstock-project/penstock/cmd/penstock/internal/proxy"
)

func newUp() *cobra.Command {
	var s service
	var concurrency int
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything for a folder of YAML: control plane, picker, and an Envoy for each Gateway",
		Long: `Run everything for a folder of Gateway API YAML on this machine: the control plane, the endpoint picker, and a
supervised Envoy for each Gateway. A saved file is live in milliseconds. A mistake is told with file, line, object and
field; the last good version of that object keeps serving, also after a restart, and everything else goes on.`,
		Example: `  # Serve what is in ./config; say where. End with Ctrl-C.
  penstock up -f ./config

  # What is wrong, what is served, and where would this request go?
  penstock status -f ./config
  penstock explain -f ./config http://localhost:8080/v1/chat/completions

  # Let another cluster's gateways pick from the pool "chat" here (EndpointMode), and watch the metrics.
  penstock up -f ./config --picker 0.0.0.0:9002 --default-pool default/chat --http 127.0.0.1:9090`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.up(cmd, concurrency) },
	}
	s.flags(cmd, "127.0.0.1:0", "127.0.0.1:0")
	cmd.Flags().IntVar(&concurrency, "concurrency", 0, "worker threads of each Envoy (default: one a CPU)")
	return cmd
}

func (s *service) up(cmd *cobra.Command, concurrency int) error {
	log, err := s.logger(cmd)
	if err != nil {
		return err
	}
	envoy, err := proxy.Find(cmd.Context())
	if err != nil {
		return err
	}
	t, err := newTelemetry(cmd.Context())
	if err != nil {
		return err
	}
	defer shutdown(t)
	cfg, err := s.config(cmd.Context(), log, t)
	if err != nil {
		return err
	}
	cfg.OnePort = true
	p, err := plane.New(cfg)
	if err != nil {
		return err
	}
	// Envoys drain while the plane still answers them: it ends after the last of them.
	planeCtx, stopPlane := context.WithCancel(context.WithoutCancel(cmd.Context()))
	defer stopPlane()
	out := cmd.OutOrStdout()
	f := fleet.New(fleet.Config{
		Envoy: envoy.Path, Dir: filepath.Join(cfg.StateDir, "proxies"), ADS: cfg.XDS.Addr().String(), DrainTime: s.drainTime, Concurrency: concurrency,
		Plane: p, Log: log,
		Announce: func(gateway string, urls []string) { fmt.Fprintln(out, announcement(gateway, urls)) },
	})
	p.OnGateways(func(gateways []string) {
		if len(gateways) == 0 {
			fmt.Fprintf(out, "no Gateway of ours in %s yet: waiting for one\n", strings.Join(s.paths, ", "))
		}
		f.Set(gateways)
	})
	group, ctx := errgroup.WithContext(planeCtx)
	group.Go(func() error { return p.Run(ctx) })
	group.Go(func() error { return printFindings(ctx, p.Board(), cmd.ErrOrStderr()) })
	group.Go(func() error {
		defer stopPlane()
		fleetCtx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(cmd.Context(), stop)()
		return f.Run(fleetCtx)
	})
	return group.Wait()
}

func announcement(gateway string, urls []string) string {
	if len(urls) == 0 {
		return fmt.Sprintf("Gateway %s: no listener can be served; see penstock status", gateway)
	}
	return fmt.Sprintf("Gateway %s serves at %s", gateway, strings.Join(urls, " "))
}

func shutdown(t *telemetry) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = t.shutdown(ctx) // spans that cannot be sent now are lost
}

func newServe() *cobra.Command {
	var s service
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane and the picker alone, for Envoys that run elsewhere",
		Long: `Run the control plane and the endpoint picker, for Envoys that somebody else runs: print a bootstrap for one with
penstock bootstrap, and start it anywhere that reaches these addresses.`,
		Example: `  penstock serve -f ./config --xds 127.0.0.1:18000 --picker 127.0.0.1:9002
  penstock bootstrap --gateway default/gw --xds 127.0.0.1:18000 > envoy.yaml
  envoy -c envoy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := s.logger(cmd)
			if err != nil {
				return err
			}
			t, err := newTelemetry(cmd.Context())
			if err != nil {
				return err
			}
			defer shutdown(t)
			cfg, err := s.config(cmd.Context(), log, t)
			if err != nil {
				return err
			}
			p, err := plane.New(cfg)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "ADS at %s, endpoint picker at %s\n", cfg.XDS.Addr(), cfg.Picker.Addr())
			group, ctx := errgroup.WithContext(cmd.Context())
			group.Go(func() error { return p.Run(ctx) })
			group.Go(func() error { return printFindings(ctx, p.Board(), cmd.ErrOrStderr()) })
			return group.Wait()
		},
	}
	s.flags(cmd, "127.0.0.1:18000", "127.0.0.1:9002")
	return cmd
}
