package app

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/cmd/penstock/internal/pipeline"
	"github.com/penstock-project/penstock/discovery/status"
)

// NewFolder makes an App that serves a folder of files. It starts nothing.
func NewFolder(cfg Config, f Folder) (*App, error) {
	translation := cfg.translation()
	translation.Envoy.OwnPorts = f.OnePort
	translation.Envoy.Waits = f.OnePort && len(cfg.Peers.Addresses) == 0 &&
		len(translation.Pickers)+len(translation.PickerSockets) == 1
	core, files, err := newFileCore(f.Paths, cfg.StateDir, translation, cfg.Addresses, f, cfg.Log)
	if err != nil {
		return nil, err
	}
	var acks *acknowledged
	a, err := newApp(cfg, core, wiring{security: openSecurity(cfg.Peers, cfg.Log),
		proxies: func(gateway string) { acks.changed(gateway) }})
	if err != nil {
		return nil, err
	}
	acks = newAcknowledged(a)
	parts := []delivery.Part{acks}
	if f.OnePort {
		ports := delivery.NewPorts(a.board)
		a.ports, parts = ports, append(parts, ports)
	}
	if f.OnGateways != nil {
		parts = append(parts,
			delivery.On(delivery.Observe, func(context.Context, *delivery.Change) {
				f.OnGateways(a.translation.Gateways())
			}))
	}
	set := a.clusterSet()
	parts = append(parts, delivery.On(delivery.Observe, a.followSet))
	writer, err := status.NewWriter(status.WriterConfig{
		Board: a.board, Path: StatusFile(cfg.StateDir), Controller: Controller, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	// Peers' publications come before the first translation, because they describe the same pools.
	line := a.pipeline(pipeline.Config{Before: []func(context.Context){a.syncPeers, set.Restore},
		First: []func(context.Context){set.AwaitCertificate, a.settleNames, a.probeAnswers}}, parts...)
	a.run = func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		if err := a.servePages(ctx, group); err != nil {
			return err
		}
		admit := func() {}
		if len(cfg.Peers.Addresses) > 0 { // without peers, Envoys have no other process to try
			admit = turnAway(cfg.XDS, cfg.Local, cfg.Picker)
		}
		err := errors.Join(a.hosts.Restore(), files.Load(ctx))
		admit()
		if err != nil {
			return err
		}
		if f.Engines {
			a.runEngines(ctx, group)
			group.Go(func() error { return a.watchState(ctx) })
		}
		group.Go(func() error { return quiet(ctx, acks.programmed.Run(ctx)) })
		group.Go(func() error { return quiet(ctx, files.Run(ctx)) })
		a.serve(ctx, group, line)
		group.Go(func() error { return quiet(ctx, set.Run(ctx)) })
		group.Go(func() error { return quiet(ctx, writer.Run(ctx)) })
		return group.Wait()
	}
	return a, nil
}
