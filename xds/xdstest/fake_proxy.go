package xdstest

import (
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/xds/resource"
)

// proxy is what a fake Envoy has and waits for.
type proxy struct {
	// active is what is in force; warming, the versions of clusters that wait for their endpoints.
	active  map[resource.Ref]*applied
	warming map[string]*applied
	// accepted is what it will name when it comes back: of a response that it refused in part, nothing.
	accepted map[resource.Ref]string
	// asked are the subscriptions to names, and of these unanswered those that no response of this stream mentioned.
	asked      map[resource.Ref]bool
	unanswered map[resource.Ref]bool
	rejected   map[resource.Ref]bool // refused without ever having been in force
	// untold is in force, of a response that was refused in part on an earlier stream, and so not among the versions that
	// this stream began with, or there in an older one (DELIVERY 3): no control plane can know of it.
	untold map[resource.Ref]bool
	state  map[resource.Type]string
	// initialized: it has had an answer about clusters; listening: it has come as far as asking for listeners.
	initialized, listening bool
}

type applied struct {
	version string
	names   []resource.Ref
	ports   []uint32 // a listener's, or endpoints'
}

func newProxy() proxy {
	return proxy{
		active: map[resource.Ref]*applied{}, warming: map[string]*applied{}, accepted: map[resource.Ref]string{},
		asked: map[resource.Ref]bool{}, unanswered: map[resource.Ref]bool{}, rejected: map[resource.Ref]bool{}, untold: map[resource.Ref]bool{},
		state: map[resource.Type]string{},
	}
}

// restart is a new stream of a process that lives on. A cluster that warmed when the stream was cut, after its own
// response and before its endpoints', is one of the things that it cannot tell the next control plane: the real Envoy
// waits for initial_fetch_timeout then. It is not counted as that control plane's mistake.
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
			p.untold[ref] = true
		}
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

// backends are the ports that requests to a port may reach; none if nothing listens, or leads anywhere.
func (p *proxy) backends(port uint32) (out []uint32) {
	var walk func(ref resource.Ref, depth int)
	walk = func(ref resource.Ref, depth int) {
		a := p.active[ref]
		if a == nil || depth > 12 { // hops do not go in circles
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

// apply takes in one good resource.
func (p *proxy) apply(ref resource.Ref, a *applied) {
	old := p.active[ref]
	delete(p.untold, ref)
	switch ref.Type {
	case resource.Cluster:
		if old != nil && old.version == a.version && p.warming[ref.Name] == nil {
			return // byte-identical: nothing to do
		}
		if slices.ContainsFunc(a.names, func(n resource.Ref) bool { return n.Type == resource.Endpoints }) {
			p.warming[ref.Name] = a
			return
		}
	case resource.Endpoints:
		p.warm(ref)
	}
	p.active[ref] = a
	delete(p.rejected, ref)
}

// warm ends the warming of the clusters that wait for endpoints.
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

// remove takes out a cluster or a listener. Envoy ignores the removal of anything else, but stops to wait for endpoints.
func (p *proxy) remove(ref resource.Ref) {
	delete(p.untold, ref)
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

// broken are the requests that would now fail by the control plane's fault: wherever one may come to, what is named
// there must be in force. What was refused for good is not its fault; routes that are not there yet keep their listener
// from starting.
func (p *proxy) broken() (out []string) {
	for ref := range p.reachable() {
		for _, n := range p.active[ref].names {
			if (n.Type == resource.Cluster || n.Type == resource.Listener) && p.active[n] == nil && !p.rejected[n] {
				out = append(out, fmt.Sprintf("%s names %s, which is not there", ref, n))
			}
		}
	}
	slices.Sort(out)
	return out
}

// reachable is everything that a request may come to.
func (p *proxy) reachable() map[resource.Ref]bool {
	out := map[resource.Ref]bool{}
	var walk func(resource.Ref)
	walk = func(ref resource.Ref) {
		if out[ref] || p.active[ref] == nil {
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

// wanted are the names that what is in force, or warms, names.
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
