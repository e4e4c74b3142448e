package delivery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Ports gives each port of this machine to the first Gateway that binds it; others get a report.
// Otherwise two Envoys could share a port by SO_REUSEPORT.
type Ports struct {
	board *status.Board

	mu      sync.Mutex
	owner   map[string]string // listener -> gateway
	waiting map[string]map[string]*resource.Resource
}

// NewPorts makes a Ports.
func NewPorts(b *status.Board) *Ports {
	return &Ports{board: b, owner: map[string]string{}, waiting: map[string]map[string]*resource.Resource{}}
}

// Steps implements Part.
func (c *Ports) Steps() []Step {
	return []Step{{Claim, func(_ context.Context, ch *Change) {
		ch.Output.Deltas = c.filter(ch.Output.Deltas)
		c.board.Replace(status.Ports, c.reports()...)
	}}}
}

func isPort(ref resource.Ref) bool {
	_, ok := model.ParseListenerName(ref.Name)
	return ok && ref.Type == resource.Listener
}

func (c *Ports) filter(deltas []translator.Delta) []translator.Delta {
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
			if gw == d.Gateway &&
				(d.Gone || slices.Contains(d.Removes, resource.Ref{Type: resource.Listener, Name: name})) {
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

func (c *Ports) claim(r *resource.Resource, gateway string) bool {
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

func (c *Ports) reports() []report.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[string]*report.Report{}
	for _, listener := range slices.Sorted(maps.Keys(c.waiting)) {
		socket, _ := model.ParseListenerName(listener)
		for _, gw := range slices.Sorted(maps.Keys(c.waiting[listener])) {
			if by[gw] == nil {
				by[gw] = &report.Report{Owner: store.RefOf(store.Gateways, gw)}
			}
			problem := fmt.Sprintf("port %s is already used by Gateway %s", socket, c.owner[listener])
			by[gw].Conditions = report.Set(by[gw].Conditions, report.NotProgrammed("AddressNotUsable", problem))
			by[gw].Findings = append(by[gw].Findings,
				report.Finding{Severity: report.Error, Owner: by[gw].Owner, Field: "spec.listeners", Problem: problem,
					Fix: "choose another port, or remove one of the two Gateways"})
		}
	}
	var out []report.Report
	for _, gw := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[gw])
	}
	return out
}

// Has reports whether a gateway owns the port of a listener.
func (c *Ports) Has(listener, gateway string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner[listener] == gateway
}

// Served reports whether a gateway's Envoy receives a listener, or the listener of a route
// configuration. Internal listeners (hops) have no port and are always served.
func (c *Ports) Served(ref resource.Ref, gateway string) bool {
	socket, ok := model.ParseListenerName(ref.Name)
	if !ok {
		_, socket.Port, ok = model.ParseChain(model.ChainOfRoutes(ref.Name))
	}
	return !ok || c.Has(socket.Listener(), gateway)
}
