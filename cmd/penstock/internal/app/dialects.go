package app

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker/probe"
	"github.com/penstock-project/penstock/translator"
)

// followPickers has foreign pickers that routes lead to asked how they answer.
func (p *App) followPickers(out translator.Output) {
	for _, name := range out.PickersGone {
		p.dialects.Remove(name.String())
	}
	for _, f := range out.Pickers {
		p.dialects.Set(f.Cluster.String(), probe.Picker{Addresses: f.Addresses, TLS: f.TLS, SNI: f.SNI})
	}
}

// pickerPatience is how long the first Envoy waits for foreign pickers to show how they answer.
const pickerPatience = time.Second

// hearPickers returns when all have, or that time is over. An Envoy that was served by a process before this one asks them as they
// understand; told otherwise for a moment, it would lose the requests of that moment.
func (p *App) hearPickers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pickerPatience)
	defer cancel()
	if err := p.dialects.WaitAnswered(ctx); err != nil {
		p.log.Debug("serving before all pickers have shown how they answer", "error", err)
	}
}

// keepDialect stores what a picker has shown, from where translation reads it.
func (p *App) keepDialect(name string, a probe.Answer) error {
	op := store.Dialects.Delete(name)
	if d := (&store.Dialect{Acknowledges: a.Dialect == probe.Acknowledges, Health: a.Health}); d.Acknowledges || d.Health {
		d.Name = name
		op = store.Dialects.Put(d)
	}
	if _, err := p.store.Apply(op); err != nil {
		return fmt.Errorf("how %s answers: %w", name, err)
	}
	return nil
}
