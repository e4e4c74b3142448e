package app

import (
	"context"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
)

// Offline translates files once, without running anything.
type Offline struct {
	core
	files *file.Reader
}

// NewOffline makes it.
func NewOffline(cfg OfflineConfig) (*Offline, error) {
	core, files, err := newFileCore(cfg.Paths, cfg.StateDir, translator.Config{
		Controller: Controller, AnyClass: true, AnyController: cfg.AnyController, Pickers: cfg.PickerAddresses,
	}, cfg.Log)
	return &Offline{core, files}, err
}

// Translate reads all files, resolves all host names, and translates. Nothing else may use the translator meanwhile.
func (o *Offline) Translate(ctx context.Context) (t *translator.Translator, out translator.Output, err error) {
	if err := load(ctx, o.files, o.hosts); err != nil {
		return nil, out, err
	}
	view := o.store.View()
	out = o.translation.Update(view, store.Everything(view))
	o.board.Set(status.Translation, out.Reports...)
	o.translation.Read(func(is *translator.Translator) { t = is })
	return t, out, nil
}
