package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/replace"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/supervisor"
)

func newUp() *cobra.Command {
	var s service
	var concurrency int
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything for a folder of YAML: control plane, picker, and an Envoy for each Gateway",
		Long: `Run everything for a folder of Gateway API YAML on this machine: the control plane, the endpoint
picker, and a supervised Envoy for each Gateway. A saved file is live in milliseconds. A mistake is reported with
file, line, object and field. An invalid object keeps its last good version, also after a restart, and all other
objects take effect. A reference to an object that does not exist takes effect at once: its rule answers 500.

A ModelDeployment starts model servers. Ctrl-C, SIGHUP and penstock down end them; SIGTERM, a crash and an upgrade
leave them to the next penstock up of the folder.

SIGUSR2 replaces the program in place by the file that was started, for example after an upgrade: the process, its
Envoys, model servers and streams stay, and new requests wait. A new program that rejects its flags changes nothing.

A server that stops serving is one line with the cause, and one more line when it serves again.`,
		Example: `  # Serve ./config, and print the addresses. Stop with Ctrl-C.
  penstock up -f ./config

  # What is wrong, what is served, and where would this request go?
  penstock status -f ./config
  penstock explain -f ./config http://localhost:8080/v1/chat/completions

  # Let another cluster's gateways pick from the pool "chat" (EndpointMode) over TLS.
  # penstock credentials makes the files.
  penstock up -f ./config --picker 192.0.2.1:9002 --picker-open --default-pool default/chat \
      --xds-cert penstock.crt --xds-key penstock.key --xds-client-ca ca.crt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.prepareReplacement(); err != nil {
				return err
			}
			return s.up(cmd, concurrency)
		},
	}
	s.upFlags(cmd)
	devicesFlag(cmd, &s.devices)
	modelsLimitFlag(cmd, &s.modelsLimit)
	cmd.Flags().IntVar(&concurrency, "concurrency", 0, "number of worker threads of each Envoy (default: one per CPU)")
	return cmd
}

func (s *service) upFlags(cmd *cobra.Command) {
	s.local = true
	s.flags(cmd, "127.0.0.1:0", "warn") // only warnings are logged: success is printed
}

func devicesFlag(cmd *cobra.Command, devices *int) {
	cmd.Flags().IntVar(devices, "devices", 0, "number of accelerators of this machine, at most 256, if no program "+
		"lists them; their indexes begin with 0 (default: the list of the engine's program, such as nvidia-smi)")
}

func (s *service) checkEngines() error {
	if s.devices < 0 || s.devices > maxDevices {
		return fmt.Errorf("--devices %d: write a number from 1 to %d", s.devices, maxDevices)
	}
	if s.modelsLimit < 0 || s.modelsLimit > maxModelsLimit {
		return fmt.Errorf("--models-limit %d: write a number of GiB", s.modelsLimit)
	}
	return nil
}

func (s *service) up(cmd *cobra.Command, concurrency int) error {
	if err := s.checkEngines(); err != nil {
		return err
	}
	envoy, err := supervisor.Find(cmd.Context())
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if replace.Checking() {
		return s.answerCheck(cmd)
	}
	var f *supervisor.Supervisor
	lines, phases := newLineQueue(), newLineQueue()
	p, cfg, shutdown, err := s.newApp(cmd, func(cfg app.Config) (*app.App, error) {
		cfg.OnServers = lines.add
		onGateways := func(gateways []string) {
			if len(gateways) == 0 {
				fmt.Fprintf(out, "%s has no Gateway for Penstock yet: waiting for one\n", strings.Join(s.paths, ", "))
			}
			f.Set(gateways)
		}
		return app.NewFolder(cfg, app.Folder{Paths: s.paths, OnePort: true, Engines: true, Devices: s.devices,
			ModelsLimit: s.modelsLimit << 30, OnPhase: s.onPhase(cmd.Context(), phases), OnGateways: onGateways})
	})
	if err != nil {
		return err
	}
	defer shutdown()
	// The app ends after the Envoys, which follow its ADS while they drain.
	appCtx, stopApp := context.WithCancel(context.WithoutCancel(cmd.Context()))
	defer stopApp()
	now := make(chan struct{})
	ended := make(chan struct{})
	defer s.stop.announce(cmd.Context(), cmd.ErrOrStderr(), func() { close(now); <-ended })()
	thread := supervisor.NewThread()
	f = supervisor.New(supervisor.Config{
		Envoy: envoy, Dir: filepath.Join(s.runtime, "proxies"), ADS: "unix:" + cfg.Local.Addr().String(),
		DrainTime: s.drainTime, Concurrency: concurrency,
		Grace: s.stop.timeout, Now: now,
		ControlPlane: p, Log: cfg.Log,
		Announce: func(gateway string, urls []string) { fmt.Fprintln(out, announcement(gateway, urls)) },
		Report:   func(gateway, problem string) { reportEnvoy(p.Board(), gateway, problem) },
		Thread:   thread, Kept: s.replacement.kept(),
	})
	if line := s.replacement.report(); line != "" {
		fmt.Fprintln(out, line)
	}
	if cmd.Flags().Changed("picker") { // other clusters' Gateways call this address
		fmt.Fprintf(out, "endpoint picker at %s\n", addressOf(cfg.Picker))
	}
	group, ctx := errgroup.WithContext(appCtx)
	fleetCtx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(cmd.Context(), func() {
		p.Leave()
		stop()
	})()
	r := replaceable{app: p, envoys: f, thread: thread, flush: shutdown, log: cfg.Log}
	r.run(ctx, group)
	group.Go(func() error { return s.replaceOnSignal(fleetCtx, r) })
	group.Go(func() error { return printFindings(ctx, p.Board(), cmd.ErrOrStderr()) })
	group.Go(func() error { return lines.print(ctx, cmd.ErrOrStderr()) })
	group.Go(func() error { return phases.print(ctx, out) })
	group.Go(func() error {
		defer stopApp()
		defer close(ended)
		err := f.Run(fleetCtx)
		p.CountCut()
		if endsEngines(cmd.Context()) { // after SIGTERM, the next process adopts the servers
			err = errors.Join(err, p.StopEngines(context.WithoutCancel(ctx)))
		}
		return err
	})
	thread.Run(ctx)
	return group.Wait()
}

const maxDevices = 256

func reportEnvoy(board *status.Board, gateway, problem string) {
	ref := store.RefOf(store.Gateways, gateway)
	if problem == "" {
		board.Remove(status.Supervisor, ref)
		return
	}
	board.Set(status.Supervisor, report.Report{
		Owner:      ref,
		Conditions: []report.Condition{report.NotProgrammed(string(gatewayv1.GatewayReasonNoResources), problem)},
		Findings: []report.Finding{{
			Severity: report.Error, Owner: ref, Problem: problem,
			Fix: "restore the program that $ENVOY or PATH named when penstock started; or make room in the state " +
				"folder; or resolve what kills Envoy, such as a lack of memory",
		}},
	})
}

// onPhase returns a function that queues lines about phases until Ctrl-C ends the servers.
func (s *service) onPhase(ctx context.Context, lines *lineQueue) func(id, phase, message string) {
	text := s.phaseLine
	if text == nil {
		text = phaseLine
	}
	return func(id, phase, message string) {
		if line := text(id, phase, message); line != "" && !endsEngines(ctx) {
			lines.add(line)
		}
	}
}

func phaseLine(id, phase, message string) string {
	return fmt.Sprintf("ModelDeployment %s is %s: %s", id, phase, message)
}

func announcement(gateway string, urls []string) string {
	if len(urls) == 0 {
		return fmt.Sprintf("Gateway %s has no listener that can serve; see penstock status", gateway)
	}
	return fmt.Sprintf("Gateway %s serves at %s", gateway, strings.Join(urls, " "))
}
