package plane

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
func (p *Plane) keepDialect(name string, d dialect.Dialect) error {
	op := store.Dialects.Delete(name)
	if d == dialect.Acknowledges {
		op = store.Dialects.Put(&store.Dialect{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if _, err := p.store.Apply(op); err != nil {
		return fmt.Errorf("how %s answers: %w", name, err)
	}
	return nil
}
