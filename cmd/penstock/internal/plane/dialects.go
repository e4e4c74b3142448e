package plane

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker/dialect"
	"github.com/penstock-project/penstock/translator"
)

// followPickers has foreign pickers that routes lead to asked how they answer.
func (p *Plane) followPickers(out translator.Output) {
	for _, name := range out.PickersGone {
		p.dialects.Forget(name)
	}
	for _, f := range out.Pickers {
		p.dialects.Follow(f.Cluster, dialect.Picker{Addresses: f.Addresses, TLS: f.TLS, SNI: f.SNI})
	}
}

// keepDialect stores what a picker has shown, from where translation reads it.
func (p *Plane) keepDialect(name string, a dialect.Answer) error {
	op := store.Dialects.Delete(name)
	if d := (&store.Dialect{Acknowledges: a.Dialect == dialect.Acknowledges, Health: a.Health}); d.Acknowledges || d.Health {
		d.Name = name
		op = store.Dialects.Put(d)
	}
	if _, err := p.store.Apply(op); err != nil {
		return fmt.Errorf("how %s answers: %w", name, err)
	}
	return nil
}
