package app

import (
	"context"
	"net"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
)

// clusterSet makes this process's part in a cluster set, which does nothing until there is a ClusterSet.
func (a *App) clusterSet() *clusterset.Set {
	cfg := clusterset.Config{
		Store: a.store, Board: a.board, StateDir: a.cfg.StateDir, Address: a.cfg.Members.Address,
		Identity: clusterset.FileIdentity(a.cfg.StateDir), Authority: clusterset.FileAuthority(a.cfg.StateDir), Records: clusterset.FileRecords(a.cfg.StateDir),
		ServerOptions: a.memberOptions(), Drain: a.cfg.DrainTime, Now: clock(), Log: a.log, OnPanic: a.panics.of(partStream),
	}
	if l := a.cfg.Members.Listener; l != nil {
		cfg.Listen = func(context.Context) (net.Listener, error) { return a.admit(l, true), nil } // once: this process leads for as long as it runs
	}
	c := a.cfg.Credentials
	cfg.Pickers, cfg.Cleartext, cfg.MembersPick = a.cfg.translation().Pickers, c == nil, c != nil && !c.OpenPicker
	cfg.Load, cfg.Offers = a.clusterLoads.Receive, a.cfg.offers()
	cfg.InFlight, cfg.Traffic = func() int64 { return a.picker.Imported() }, a.memberTraffic
	a.set = clusterset.New(cfg)
	a.registry.MustRegister(a.set)
	return a.set
}

// memberTraffic is what the picker counts of the requests that it sent to clusters.
func (a *App) memberTraffic() map[string]clusterset.Traffic {
	out := map[string]clusterset.Traffic{}
	for cluster, t := range a.picker.Traffic() {
		is := clusterset.Traffic{Served: t.Served, Failed: t.Failed, Declined: t.Declined, Bytes: t.Bytes}
		if t.Served > 0 {
			is.FirstByte = clusterset.Duration(t.FirstByte / time.Duration(t.Served))
		}
		out[cluster] = is
	}
	return out
}
