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
	state      map[resource.Type]string
	listening  bool // it has come as far as asking for listeners
}

type applied struct {
	version string
	names   []resource.Ref
	ports   []uint32 // a listener's, or endpoints'
}

func newProxy() proxy {
	return proxy{
		active: map[resource.Ref]*applied{}, warming: map[string]*applied{}, accepted: map[resource.Ref]string{},
		asked: map[resource.Ref]bool{}, unanswered: map[resource.Ref]bool{}, rejected: map[resource.Ref]bool{},
		state: map[resource.Type]string{},
	}
}

// restart is a new stream of a process that lives on.
func (p *proxy) restart() { clear(p.unanswered) }

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

// namers are the resources of a type in force which name another.
func (p *proxy) namers(t resource.Type, target resource.Ref) []string {
	var out []string
	for ref, a := range p.active {
		if ref.Type == t && slices.Contains(a.names, target) {
			out = append(out, ref.Name)
		}
	}
	slices.Sort(out)
	return out
}

// apply takes in one good resource, and says what the control plane did wrong by sending it now.
func (p *proxy) apply(ref resource.Ref, a *applied) (violations []string) {
	delete(p.rejected, ref)
	old := p.active[ref]
	switch ref.Type {
	case resource.Cluster:
		if old != nil && old.version == a.version && p.warming[ref.Name] == nil {
			return nil // byte-identical: nothing to do
		}
		if slices.ContainsFunc(a.names, isEndpoints) {
			p.warming[ref.Name] = a
			return nil
		}
	case resource.Endpoints:
		p.active[ref] = a
		violations = p.missing(ref, a, resource.Listener)
		for name, c := range p.warming {
			if slices.Contains(c.names, ref) {
				p.active[resource.Ref{Type: resource.Cluster, Name: name}] = c
				delete(p.warming, name)
			}
		}
		return violations
	case resource.RouteConfiguration:
		violations = p.missing(ref, a, resource.Cluster)
	}
	p.active[ref] = a
	return violations
}

func isEndpoints(ref resource.Ref) bool { return ref.Type == resource.Endpoints }

// missing says which resources of a type are named although they are not in force. What was refused for good is not the
// control plane's fault, nor are hops at a start, when endpoints come first.
func (p *proxy) missing(ref resource.Ref, a *applied, t resource.Type) (violations []string) {
	if t == resource.Listener && !p.listening {
		return nil
	}
	for _, n := range a.names {
		if n.Type == t && p.active[n] == nil && !p.rejected[n] {
			if t == resource.Listener && p.warms(ref) {
				continue // a new cluster needs its endpoints to become ready, whatever they name
			}
			violations = append(violations, fmt.Sprintf("%s names %s, which is not there", ref, n))
		}
	}
	return violations
}

func (p *proxy) warms(endpoints resource.Ref) bool {
	for _, c := range p.warming {
		if slices.Contains(c.names, endpoints) {
			return true
		}
	}
	return false
}

// remove takes out a cluster or a listener; Envoy ignores the removal of anything else.
func (p *proxy) remove(ref resource.Ref) (violations []string) {
	switch ref.Type {
	case resource.Cluster:
		for _, rc := range p.namers(resource.RouteConfiguration, ref) {
			violations = append(violations, fmt.Sprintf("%s removed while route %s names it", ref, rc))
		}
		delete(p.warming, ref.Name)
	case resource.Listener:
		for _, e := range p.namers(resource.Endpoints, ref) {
			violations = append(violations, fmt.Sprintf("%s removed while endpoints %s name it", ref, e))
		}
	default:
		return nil
	}
	delete(p.active, ref)
	return violations
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
