package app

import (
	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
)

// clusterSet makes this process's part in a cluster set, which does nothing until there is a ClusterSet.
func (a *App) clusterSet() *clusterset.Set {
	cfg := clusterset.Config{
		Store: a.store, Board: a.board, StateDir: a.cfg.StateDir, Listener: a.cfg.Members.Listener, Address: a.cfg.Members.Address,
		ServerOptions: a.panics.calls(partStream), Drain: a.cfg.DrainTime, Now: clock(), Log: a.log, OnPanic: a.panics.of(partStream),
	}
	if c := a.cfg.Credentials; c == nil || c.OpenPicker { // else a pick takes the key of a Gateway here
		cfg.Pickers, cfg.Cleartext = a.cfg.translation().Pickers, c == nil
	}
	return clusterset.New(cfg)
}
