package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/expiry"
	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/translator"
)

// Offline translates files once, without running anything.
type Offline struct {
	core
	files *file.Reader
}

// NewOffline makes an Offline.
func NewOffline(cfg OfflineConfig) (*Offline, error) {
	core, files, err := newFileCore(cfg.Paths, cfg.StateDir, translator.Config{
		Controller: Controller, AnyClass: true, AnyController: cfg.AnyController, Pickers: cfg.PickerAddresses,
	}, FolderAddresses(), Folder{}, cfg.Log)
	if err != nil {
		return nil, err
	}
	_, err = core.store.Apply(cfg.Processor.object())
	return &Offline{core, files}, err
}

// Names reads all files, and returns the names of the objects of these kinds.
func (o *Offline) Names(ctx context.Context, kinds ...string) (out []string, err error) {
	if err := o.files.Load(ctx); err != nil {
		return nil, err
	}
	for _, c := range store.Everything(o.store.View()) {
		if slices.Contains(kinds, c.Table) {
			out = append(out, c.ID)
		}
	}
	return out, nil
}

// Deployment reads all files. It returns a valid ModelDeployment, or nil, and all Engines by name.
func (o *Offline) Deployment(ctx context.Context, id string) (
	d *v1alpha1.ModelDeployment, engines map[string]*v1alpha1.Engine, err error,
) {
	if err := o.files.Load(ctx); err != nil {
		return nil, nil, err
	}
	view := o.store.View()
	d, _ = store.ModelDeployments.Get(view, id)
	engines = map[string]*v1alpha1.Engine{}
	for _, e := range store.Engines.All(view) {
		engines[e.Name] = e
	}
	return d, engines, nil
}

const nameRounds = 3

// Translate reads all files, resolves host names, and translates. No other goroutine may use the
// translator meanwhile.
func (o *Offline) Translate(ctx context.Context) (t *translator.Translator, out translator.Output, err error) {
	if err := errors.Join(o.hosts.Restore(), o.files.Load(ctx)); err != nil {
		return nil, out, err
	}
	sub := o.store.Subscribe()
	defer sub.Close()
	for round := range nameRounds {
		revisions, view := sub.Pending()
		var changes []store.Change
		for _, r := range revisions {
			changes = append(changes, r.Changes...)
		}
		later := o.translation.Update(view, changes)
		if round == 0 {
			out = later
		} else {
			out = out.Then(later)
		}
		if len(later.Names) == 0 {
			break
		}
		if err := o.hosts.Resolve(ctx, later.Names); err != nil {
			return nil, out, err
		}
	}
	o.board.Set(status.Translation, out.Reports...)
	o.board.Set(status.Certificates, expiry.Check(o.store.View(), time.Now())...)
	o.board.Set(status.Members, set.Check(o.store.View(), time.Now())...)
	o.translation.Read(func(current *translator.Translator) { t = current })
	return t, out, nil
}
