package xdstest

import (
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/xds/resource"
)

type proxy struct {
	active  map[resource.Ref]*applied
	warming map[string]*applied
	// accepted omits partly rejected responses.
	accepted   map[resource.Ref]string
	subscribed map[resource.Ref]bool
	unanswered map[resource.Ref]bool
	// rejected are rejected resources without an ACKed version.
	rejected map[resource.Ref]bool
	// unacked are in force from a partly rejected response of an earlier stream.
	unacked map[resource.Ref]bool
	// resumed are route configurations of an earlier stream. lost are the virtual hosts that the
	// current version of these configurations lacks. A new control plane need not retract them,
	// because it may not know the earlier version.
	resumed, lost map[resource.Ref]bool
	state         map[resource.Type]string
	// Envoy stores a secret's bytes even if it rejects them. It ignores the same bytes later, and
	// uses them for new listeners.
	stored map[resource.Ref]storedSecret
	// initialized means that clusters have arrived, and listening that listeners were requested.
	initialized, listening bool
}

type applied struct {
	version string
	names   []resource.Ref
	ports   []uint32
	body    []byte
}

func newProxy() proxy {
	return proxy{
		active: map[resource.Ref]*applied{}, warming: map[string]*applied{}, accepted: map[resource.Ref]string{},
		subscribed: map[resource.Ref]bool{}, unanswered: map[resource.Ref]bool{}, rejected: map[resource.Ref]bool{},
		unacked: map[resource.Ref]bool{},
		resumed: map[resource.Ref]bool{}, lost: map[resource.Ref]bool{},
		state: map[resource.Type]string{}, stored: map[resource.Ref]storedSecret{},
	}
}

type storedSecret struct {
	hash     string
	rejected bool
}

// restart ends the warming of clusters, which the next control plane cannot see. The real Envoy
// then waits for initial_fetch_timeout, which is not a violation.
func (p *proxy) restart() {
	clear(p.unanswered)
	for name, c := range p.warming {
		ref := resource.Ref{Type: resource.Cluster, Name: name}
		p.active[ref] = c
		delete(p.rejected, ref)
	}
	clear(p.warming)
	for ref, a := range p.active {
		if p.accepted[ref] != a.version && wildcard(ref.Type) {
			p.unacked[ref] = true
		}
		p.resumed[ref] = ref.Type == resource.RouteConfiguration
	}
}

func (p *proxy) has(ref resource.Ref) (string, bool) {
	if a := p.active[ref]; a != nil {
		return a.version, true
	}
	return "", false
}

func (p *proxy) names(t resource.Type) []string {
	var out []string
	for ref := range p.active {
		if ref.Type == t {
			out = append(out, ref.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (p *proxy) backends(port uint32) (out []uint32) {
	var walk func(ref resource.Ref, depth int)
	walk = func(ref resource.Ref, depth int) {
		a := p.active[ref]
		if a == nil || depth > 12 { // there are no cycles
			return
		}
		if ref.Type == resource.Endpoints {
			out = append(out, a.ports...)
		}
		for _, n := range a.names {
			walk(n, depth+1)
		}
	}
	for _, l := range p.names(resource.Listener) {
		ref := resource.Ref{Type: resource.Listener, Name: l}
		if slices.Contains(p.active[ref].ports, port) {
			walk(ref, 0)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p *proxy) apply(ref resource.Ref, a *applied) {
	old := p.active[ref]
	delete(p.unacked, ref)
	switch ref.Type {
	case resource.Cluster:
		if old != nil && old.version == a.version && p.warming[ref.Name] == nil {
			delete(p.rejected, ref)
			return
		}
		if slices.ContainsFunc(a.names, func(n resource.Ref) bool { return n.Type == resource.Endpoints }) {
			p.warming[ref.Name] = a
			return
		}
	case resource.Endpoints:
		p.warm(ref)
	case resource.RouteConfiguration:
		for _, n := range a.names {
			delete(p.lost, n)
		}
		for _, n := range p.routesBefore(ref) {
			p.lost[n] = n.Type == resource.VirtualHost && !slices.Contains(a.names, n)
		}
		delete(p.resumed, ref)
	}
	p.active[ref] = a
	delete(p.rejected, ref)
}

func (p *proxy) routesBefore(ref resource.Ref) []resource.Ref {
	if !p.resumed[ref] || p.active[ref] == nil {
		return nil
	}
	return p.active[ref].names
}

func (p *proxy) warm(endpoints resource.Ref) {
	for name, c := range p.warming {
		if slices.Contains(c.names, endpoints) {
			ref := resource.Ref{Type: resource.Cluster, Name: name}
			p.active[ref] = c
			delete(p.rejected, ref)
			delete(p.warming, name)
		}
	}
}

// Envoy ignores other removals. A removal of endpoints ends the wait for them.
func (p *proxy) remove(ref resource.Ref) {
	delete(p.unacked, ref)
	switch ref.Type {
	case resource.Cluster:
		delete(p.warming, ref.Name)
		delete(p.active, ref)
	case resource.Listener:
		delete(p.active, ref)
	case resource.Endpoints:
		p.warm(ref)
	}
}

// broken ignores rejected resources, and missing route configurations, which only delay a
// listener's start.
func (p *proxy) broken() (out []string) {
	for ref := range p.reachable() {
		for _, n := range p.active[ref].names {
			if (n.Type == resource.Cluster || n.Type == resource.Listener) && p.active[n] == nil && !p.rejected[n] {
				out = append(out, fmt.Sprintf("%s names %s, which is not in force", ref, n))
			}
			if n.Type == resource.VirtualHost && ref.Type == resource.Endpoints && !p.serves(n) && !p.lost[n] {
				out = append(out, fmt.Sprintf("%s names hop %s, which no routes have", ref, n.Name))
			}
		}
	}
	slices.Sort(out)
	return out
}

func (p *proxy) serves(host resource.Ref) bool {
	for ref, a := range p.active {
		if ref.Type == resource.RouteConfiguration && slices.Contains(a.names, host) {
			return true
		}
	}
	return false
}

func (p *proxy) reachable() map[resource.Ref]bool {
	out := map[resource.Ref]bool{}
	var walk func(resource.Ref)
	walk = func(ref resource.Ref) {
		if out[ref] || p.active[ref] == nil || p.rejected[ref] {
			return
		}
		out[ref] = true
		for _, n := range p.active[ref].names {
			walk(n)
		}
	}
	for ref, a := range p.active {
		if ref.Type == resource.Listener && a.ports[0] != 0 {
			walk(ref)
		}
	}
	return out
}

func (p *proxy) wanted(t resource.Type) map[string]bool {
	out := map[string]bool{}
	add := func(a *applied) {
		for _, n := range a.names {
			if n.Type == t {
				out[n.Name] = true
			}
		}
	}
	for ref, a := range p.active {
		if ref.Type == resource.Cluster || ref.Type == resource.Listener {
			add(a)
		}
	}
	for _, a := range p.warming {
		add(a)
	}
	return out
}
