package app

import (
	"log/slog"

	"github.com/penstock-project/penstock/cmd/penstock/internal/pipeline"
	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/hostname"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
)

type core struct {
	log         *slog.Logger
	store       *store.Store
	hosts       *hostname.Resolver
	board       *status.Board
	translation *pipeline.Translation
	panics      *panics
	files       *file.Reader
	deployments *controller.Keeper // nil: objects come from Kubernetes
	gate        *gate              // nil in an Offline
}

func newCore(stateDir string, translation translator.Config, addresses Addresses,
	locate func(owner report.Ref, field string) string, log *slog.Logger) (core, error) {
	c := core{log: log, store: store.New(), board: status.NewBoard(locate),
		translation: pipeline.NewTranslation(translation), panics: newPanics(log)}
	if _, err := c.store.Apply(addresses.policy()); err != nil {
		return c, err
	}
	var err error
	c.hosts, err = hostname.New(hostname.Config{Store: c.store, Lookup: addresses.lookup(), StateDir: stateDir,
		Log: log, OnPanic: c.panics.of(partLookup)})
	return c, err
}

func newFileCore(paths []string, stateDir string, translation translator.Config, addresses Addresses,
	f Folder, log *slog.Logger) (c core, files *file.Reader, err error) {
	c, err = newCore(stateDir, translation, addresses,
		func(owner report.Ref, field string) string { return files.Locate(owner, field) }, log)
	if err != nil {
		return c, nil, err
	}
	c.deployments = newDeployments(c, stateDir, f)
	files, err = file.New(file.Config{
		Paths: paths, Store: c.deployments, StateDir: stateDir, Log: log,
		Report:  func(reports []report.Report) { c.board.Replace(status.Files, reports...) },
		OnPanic: c.panics.of(partTranslation),
		Former: func(policy string) (former []v1alpha1.FormerTarget) {
			if p, ok := store.AccessPolicies.Get(c.store.View(), policy); ok {
				former = p.Spec.Former
			}
			return former
		},
	})
	c.files = files
	return c, files, err
}

// Board has the reports of all objects.
func (c *core) Board() *status.Board { return c.board }
