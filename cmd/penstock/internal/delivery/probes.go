package delivery

import (
	"context"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/probe"
	"github.com/penstock-project/penstock/translator/model"
)

// Prober probes external pickers. *probe.Prober implements it.
type Prober interface {
	Set(name string, p probe.Picker)
	SetHealth(name string, at probe.Health)
	Remove(name string)
}

// Probes starts probes of external pickers: of their health and, if Envoys call them, of their
// ext_proc dialect.
type Probes struct{ Prober Prober }

// Steps implements Part.
func (p Probes) Steps() []Step { return []Step{{Probe, p.probe}} }

func (p Probes) probe(_ context.Context, c *Change) {
	for _, name := range c.Output.PickersGone {
		p.Prober.Remove(name.String())
		p.Prober.SetHealth(name.String(), probe.Health{})
	}
	for _, e := range c.Output.Pickers {
		at, tls := dialed(&e)
		p.Prober.SetHealth(e.Cluster.String(), health(&e.Health))
		if e.Relayed && e.Health.Port == 0 {
			p.Prober.Remove(e.Cluster.String())
			continue
		}
		target := probe.Picker{Addresses: at, TLS: tls, HealthOnly: e.Relayed}
		// A member's Penstock requires a pool, which a probe of the dialect does not name.
		if e.TLS.Certificate == model.MemberCertificate {
			target.Dialect = probe.FullDuplex
		}
		p.Prober.Set(e.Cluster.String(), target)
	}
}

func health(p *model.PickerPort) probe.Health {
	return probe.Health{Port: p.Port, TLS: PortTLS(p), Authorization: p.Authorization}
}

// PortTLS returns the TLS of a picker's port; nil: cleartext.
func PortTLS(p *model.PickerPort) *dial.TLS {
	if p.TLS == nil {
		return nil
	}
	return &dial.TLS{ServerName: p.TLS.SNI, Verify: &dial.Verify{Roots: p.CA, SANs: p.TLS.SANs, URIs: p.TLS.URIs},
		Certificate: p.Chain, Key: p.Key}
}
