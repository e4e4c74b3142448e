package app

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/xds/admission/ports"
)

func (a *App) clusterSet() *set.Set {
	cfg, dir := a.setConfig(), a.cfg.StateDir
	files := set.OnDisk(dir)
	cfg.Identity, cfg.Authority, cfg.Records = files.Identity, files.Authority(), files.Records()
	if l := a.cfg.Members.Listener; l != nil {
		// In a folder this process always leads, so Listen is called once.
		cfg.Listen = func(context.Context) (net.Listener, error) { return a.admit(ports.Members, l, true), nil }
	}
	c := a.cfg.Credentials
	cfg.Pickers, cfg.Cleartext, cfg.MembersPick = a.cfg.translation().Pickers, c == nil, c != nil && !c.OpenPicker
	a.set = set.New(cfg)
	a.registry.MustRegister(a.set)
	return a.set
}

func (a *App) setConfig() set.Config {
	return set.Config{
		Store: a.store, Board: a.board, StateDir: a.cfg.StateDir, Address: a.cfg.Members.Address,
		ServerOptions: a.memberOptions(), Drain: a.cfg.DrainTime, Now: clock(), Log: a.log,
		OnPanic: a.panics.of(partStream), Load: a.clusterLoads.Receive, Offers: a.cfg.offers(),
		InFlight: func() int64 { return a.picker.Imported() }, Traffic: a.memberTraffic,
	}
}

func (a *App) followSet(ctx context.Context, c *delivery.Change) {
	a.set.Follow(ctx, set.Change{View: c.View, Objects: c.Objects, Output: c.Output})
}

func (a *App) hasExportingCluster(id objectid.Target) bool {
	obj, ok := gatewayapi.Imported(a.store.View(), id.Pool.String())
	return ok && slices.ContainsFunc(obj.Status.Clusters,
		func(c inferenceapi.ImportedCluster) bool { return c.Name == id.Member })
}

func (a *App) records(q picker.Picks) []*picker.Record {
	all := append(a.picker.Picks(q), a.attempts.Records(q)...)
	slices.SortStableFunc(all, func(a, b *picker.Record) int { return b.Time.Compare(a.Time) })
	return all
}

func (a *App) memberTraffic() map[string]set.Traffic {
	out := map[string]set.Traffic{}
	for cluster, t := range a.attempts.Traffic() {
		traffic := set.Traffic{Served: t.Served, Failed: t.Failed, Declined: t.Declined, Spilled: t.Spilled,
			Bytes: t.Bytes}
		if t.Served > 0 {
			traffic.FirstByte = set.Duration(t.FirstByte / time.Duration(t.Served))
		}
		out[cluster] = traffic
	}
	return out
}
