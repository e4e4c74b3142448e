package app

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/cmd/penstock/internal/state"
	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// Engines returns the folder below a state folder that holds the records of started model servers.
func Engines(stateDir string) string { return filepath.Join(stateDir, "engines") }

// Installed returns the folder of installed engines. dir is a state folder, or the parent of all
// state folders.
func Installed(dir string) string { return filepath.Join(dir, "programs") }

func newDeployments(c core, stateDir string, f Folder) *controller.Keeper {
	cfg := controller.Config{Store: c.store, Log: c.log, Inherited: controller.Inherited(os.Environ()),
		OnPhase: f.OnPhase, Devices: f.Devices, Host: devices.ThisHost(),
		Report: func(reports []report.Report) { c.board.Replace(status.Deployments, reports...) }}
	if stateDir != "" {
		cfg.StateFile = filepath.Join(stateDir, "deployments.json")
		cfg.Installed = append(cfg.Installed, Installed(stateDir))
	}
	if home, err := state.Home(); err == nil {
		cfg.Installed = append(cfg.Installed, Installed(home))
	}
	if folder, err := fetch.Folder(os.Getenv); err == nil {
		cfg.Models = fetch.New(fetch.Config{Folder: folder, Limit: f.ModelsLimit})
	}
	if program, err := os.Executable(); err == nil {
		cfg.Program = program
	}
	return controller.New(cfg)
}

// runEngines starts the folder's model servers, and first adopts running ones. Without a
// deployment, it writes no file.
func (a *App) runEngines(ctx context.Context, group *errgroup.Group) {
	dir := Engines(a.cfg.StateDir)
	var s *processes.Supervisor
	if _, err := os.Stat(dir); err == nil {
		s = a.openEngines(dir)
	}
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-a.deployments.Needed():
		}
		for again := time.NewTicker(engineRetry); s == nil; {
			if s = a.openEngines(dir); s != nil {
				again.Stop()
				break
			}
			select {
			case <-ctx.Done():
				return nil
			case <-again.C:
			}
		}
		defer s.Close()
		return quiet(ctx, a.deployments.Run(ctx, s))
	})
}

const engineRetry = 10 * time.Second

func (a *App) openEngines(dir string) *processes.Supervisor {
	s, err := processes.Open(dir, a.log)
	if err == nil {
		if err = a.deployments.Start(s); err != nil {
			s.Close()
		}
	}
	if err != nil {
		a.deployments.Unavailable(err)
		return nil
	}
	a.engines.Store(s)
	return s
}

// StopEngines stops all model servers and waits for their end.
func (a *App) StopEngines(ctx context.Context) error {
	if s := a.engines.Load(); s != nil {
		return s.Down(ctx)
	}
	return nil
}

// unsupported reports ModelDeployments and ModelRegistries on Kubernetes, where Penstock starts no
// servers.
func (a *App) unsupported(_ context.Context, c *delivery.Change) {
	set, gone := controller.Unsupported(c.Objects)
	a.board.Set(status.Deployments, set...)
	a.board.Remove(status.Deployments, gone...)
}
