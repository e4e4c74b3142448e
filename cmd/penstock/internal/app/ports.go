package app

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// portClaims lets no two Gateways on this machine have one port. Their Envoys would both bind it (SO_REUSEPORT) and the
// kernel would deal connections out between them. Who has a port keeps it; a Gateway that comes later waits for it, and
// is told. The Envoy listener's name is the port (model.ListenerName).
type portClaims struct {
	mu      sync.Mutex
	owner   map[string]string                        // listener -> gateway
	waiting map[string]map[string]*resource.Resource // listener -> gateway -> what it would get
}

func newPortClaims() *portClaims {
	return &portClaims{owner: map[string]string{}, waiting: map[string]map[string]*resource.Resource{}}
}

// isPort tells an edge listener from a hop's, which is internal to one Envoy.
func isPort(ref resource.Ref) bool {
	_, ok := model.ParseListenerName(ref.Name)
	return ok && ref.Type == resource.Listener
}

// filter takes listeners out of deltas whose port somebody else has, and puts those in whose port came free.
func (c *portClaims) filter(deltas []translator.Delta) []translator.Delta {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]*translator.Delta{}
	for _, d := range deltas {
		d.Upserts, d.Removes = slices.Clone(d.Upserts), slices.Clone(d.Removes)
		out[d.Gateway] = &d
	}
	freed := map[string]bool{}
	for _, d := range deltas {
		for name, gw := range c.owner {
			if gw == d.Gateway && (d.Gone || slices.Contains(d.Removes, resource.Ref{Type: resource.Listener, Name: name})) {
				delete(c.owner, name)
				freed[name] = true
			}
		}
		for name, waiting := range c.waiting {
			if d.Gone || slices.Contains(d.Removes, resource.Ref{Type: resource.Listener, Name: name}) {
				delete(waiting, d.Gateway)
			}
		}
	}
	for _, d := range deltas {
		out[d.Gateway].Upserts = slices.DeleteFunc(out[d.Gateway].Upserts, func(r *resource.Resource) bool {
			return isPort(r.Ref) && !c.claim(r, d.Gateway)
		})
	}
	for name := range freed {
		if c.owner[name] != "" || len(c.waiting[name]) == 0 {
			continue
		}
		gw := slices.Min(slices.Collect(maps.Keys(c.waiting[name])))
		if out[gw] == nil {
			out[gw] = &translator.Delta{Gateway: gw}
		}
		out[gw].Upserts = append(out[gw].Upserts, c.waiting[name][gw])
		c.owner[name] = gw
		delete(c.waiting[name], gw)
	}
	list := make([]translator.Delta, 0, len(out))
	for _, gw := range slices.Sorted(maps.Keys(out)) {
		list = append(list, *out[gw])
	}
	return list
}

// claim says whether a gateway has a listener's port, which it takes if nobody has it.
func (c *portClaims) claim(r *resource.Resource, gateway string) bool {
	owner := cmp.Or(c.owner[r.Name], gateway)
	if owner == gateway {
		c.owner[r.Name] = gateway
		return true
	}
	if c.waiting[r.Name] == nil {
		c.waiting[r.Name] = map[string]*resource.Resource{}
	}
	c.waiting[r.Name][gateway] = r
	return false
}

// reports says of every Gateway that waits for a port who has it.
func (c *portClaims) reports() []report.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[string]*report.Report{}
	for _, listener := range slices.Sorted(maps.Keys(c.waiting)) {
		port, _ := model.ParseListenerName(listener)
		for _, gw := range slices.Sorted(maps.Keys(c.waiting[listener])) {
			if by[gw] == nil {
				ns, name, _ := strings.Cut(gw, "/")
				by[gw] = &report.Report{Owner: report.Ref{Group: store.Gateways.Group(), Kind: store.Gateways.Kind(), Namespace: ns, Name: name}}
			}
			problem := fmt.Sprintf("port %d is already used by Gateway %s", port, c.owner[listener])
			by[gw].Conditions = report.Set(by[gw].Conditions, report.Condition{Type: "Programmed", Status: report.False, Reason: "AddressNotUsable", Message: problem})
			by[gw].Findings = append(by[gw].Findings, report.Finding{Severity: report.Error, Owner: by[gw].Owner, Field: "spec.listeners", Problem: problem, Fix: "choose another port, or remove one of the two Gateways"})
		}
	}
	var out []report.Report
	for _, gw := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[gw])
	}
	return out
}

// has says whether a gateway has a listener's port.
func (c *portClaims) has(listener, gateway string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner[listener] == gateway
}

// given says whether a gateway's Envoy has been given a listener, or the listener of a route configuration: only then
// does it ask for it. A chain's name has its port behind the first slash (model.ChainName); hops have neither.
func (c *portClaims) given(ref resource.Ref, gateway string) bool {
	port, ok := model.ParseListenerName(ref.Name)
	if !ok {
		_, port, ok = model.ParseChain(ref.Name)
	}
	return !ok || c.has(model.ListenerName(port), gateway)
}
