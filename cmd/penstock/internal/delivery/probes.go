package delivery

import (
	"context"

	"github.com/penstock-project/penstock/picker/probe"
)

// Prober asks external pickers how they answer. *probe.Prober implements it.
type Prober interface {
	Set(name string, p probe.Picker)
	Remove(name string)
}

// Probes has external pickers asked to which routes lead.
type Probes struct{ Prober Prober }

// Steps implements Part.
func (p Probes) Steps() []Step { return []Step{{Probe, p.probe}} }

func (p Probes) probe(_ context.Context, c *Change) {
	for _, name := range c.Output.PickersGone {
		p.Prober.Remove(name.String())
	}
	for _, e := range c.Output.Pickers {
		at, tls := dialed(&e)
		p.Prober.Set(e.Cluster.String(), probe.Picker{Addresses: at, TLS: tls})
	}
}
