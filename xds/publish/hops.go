package publish

import (
	"bytes"
	"slices"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// A hop is a virtual host behind an internal listener. Endpoints name the listener and the virtual
// host. Both are sent before these endpoints, and removed after them. All hops of a gateway share
// one internal listener and route configuration. A removed virtual host stays in sent variants of
// this route configuration until no endpoints of the proxy name it.

func isHost(n *cache.Slot) bool { return n.Type == resource.VirtualHost }
func isHop(n *cache.Slot) bool  { return n.Type == resource.Listener || isHost(n) }

func (s *Stream) routesOf(endpoints *cache.Entry) (out []*cache.Slot) {
	for _, l := range endpoints.Names {
		if l.Type != resource.Listener {
			continue
		}
		e := l.Current()
		if e == nil {
			e = s.Accepted(l)
		}
		if e == nil {
			continue
		}
		for _, n := range e.Names {
			if n.Type == resource.RouteConfiguration {
				out = append(out, n)
			}
		}
	}
	return out
}

func (w *waiting) host(endpoints *cache.Entry, host *cache.Slot) (since time.Time, pending bool) {
	s := w.s
	for _, n := range s.routesOf(endpoints) {
		it := s.items[n.Type][n]
		switch {
		case s.first[resource.RouteConfiguration] && !s.resumedAt.IsZero() && n.Current().NamesSlot(host):
			if until := s.resumedAt.Add(s.config.Settle); w.now.Before(until) {
				s.flushAt(until)
				return s.resumedAt, true
			}
		case it == nil || !it.want.NamesSlot(host):
		case it.quarantine != nil:
			return it.since, true // the proxy may still reject the virtual host
		case it.want.Version == it.rejected:
		case !it.have.NamesSlot(host), !it.lastSent().NamesSlot(host):
			return it.since, true
		}
	}
	return time.Time{}, false
}

func (w *waiting) awaits(endpoints *cache.Entry, n *cache.Slot) bool {
	switch n.Type {
	case resource.Listener:
		return w.hop(n)
	case resource.VirtualHost:
		_, pending := w.host(endpoints, n)
		return pending
	}
	return false
}

func (s *Stream) missingHops(e *cache.Entry) (out []*cache.Slot) {
	for _, n := range e.Names {
		switch {
		case n.Type == resource.Listener && n.Current() == nil && !s.held.has(n.ID):
			out = append(out, n)
		case isHost(n) && !slices.ContainsFunc(s.routesOf(e), func(routes *cache.Slot) bool {
			return routes.Current().NamesSlot(n) || s.Accepted(routes).NamesSlot(n)
		}):
			out = append(out, n)
		}
	}
	return out
}

func withoutHops(e *cache.Entry, hops []*cache.Slot) *cache.Entry {
	if len(hops) == 0 {
		return e
	}
	var a endpointv3.ClusterLoadAssignment
	if err := proto.Unmarshal(e.Body(), &a); err != nil {
		return e // Envoy rejects e and reports the cause
	}
	led := map[string]bool{}
	for _, group := range a.GetEndpoints() {
		group.LbEndpoints = slices.DeleteFunc(group.LbEndpoints, func(lb *endpointv3.LbEndpoint) bool {
			at := lb.GetEndpoint().GetAddress().GetEnvoyInternalAddress()
			gone := at != nil && slices.ContainsFunc(hops, func(h *cache.Slot) bool {
				return h.Name == at.GetServerListenerName() && h.Type == resource.Listener ||
					h.Name == at.GetEndpointId() && isHost(h)
			})
			if !gone {
				led[at.GetServerListenerName()] = true
			}
			return gone
		})
	}
	body, err := resource.Marshal(&a)
	if err != nil {
		return e
	}
	names := slices.DeleteFunc(slices.Clone(e.Names), func(n *cache.Slot) bool {
		return slices.Contains(hops, n) || n.Type == resource.Listener && !led[n.Name]
	})
	return cache.Variant(e, body, names)
}

// withUsedHosts adds removed virtual hosts that the proxy's endpoints still name. If the proxy's
// version is unknown, it adds none, and another virtual host answers for removed hops.
func (s *Stream) withUsedHosts(it *item, now time.Time) *cache.Entry {
	last := it.lastSent()
	if it.want == nil || last == nil || last == it.want {
		return it.want
	}
	hosts := s.usedHosts(it, last, now)
	if len(hosts) == 0 {
		return it.want
	}
	body, names := slices.Clone(it.want.Body()), slices.Clone(it.want.Names)
	for _, n := range last.Names {
		h := hosts[n]
		if h == nil {
			continue
		}
		body = protowire.AppendBytes(protowire.AppendTag(body, fieldInner[0], protowire.BytesType), h)
		names = append(names, n)
		for _, c := range last.Names {
			if !isHost(c) && !slices.Contains(names, c) && hasText(h, c.Name) {
				names = append(names, c) // a cluster stays while a virtual host names it
			}
		}
	}
	if e := cache.Variant(it.want, body, names); e.Version != it.rejected {
		return e
	}
	return it.want
}

// Two virtual hosts that only lead to each other are not in use.
func (s *Stream) usedHosts(it *item, last *cache.Entry, now time.Time) map[*cache.Slot][]byte {
	var named []*cache.Slot // named only by outdated endpoints
	used := map[*cache.Slot][]byte{}
	for _, n := range last.Names {
		switch {
		case !isHost(n) || it.want.NamesSlot(n):
		case n.Named() || s.staleNames(n, it, now):
			used[n] = nil
		case s.proxyNames(n, it):
			named = append(named, n)
		}
	}
	if len(used)+len(named) == 0 {
		return nil
	}
	hosts, leading := map[*cache.Slot][]byte{}, [][]byte{} // leading has the virtual hosts in use
	for _, p := range last.Parts {
		_, all := fields(p.Body, fieldInner[0])
		for _, h := range all {
			name := nameOf(h, 1)
			if i := slices.IndexFunc(named, func(n *cache.Slot) bool { return n.Name == name }); i >= 0 {
				hosts[named[i]] = h
				continue
			}
			leading = append(leading, h)
			for n := range used {
				if n.Name == name {
					used[n] = h
				}
			}
		}
	}
	for again := true; again; {
		again = false
		for n, h := range hosts {
			if used[n] == nil && s.leads(n, it, leading, now) {
				used[n], leading, again = h, append(leading, h), true
			}
		}
	}
	return used
}

func (s *Stream) leads(hop *cache.Slot, it *item, hosts [][]byte, now time.Time) bool {
	reached := func(c *item) bool {
		_, drains := s.drain[c.slot]
		return drains || c.slot.Named() || s.proxyNames(c.slot, it) || s.staleNames(c.slot, it, now) ||
			slices.ContainsFunc(hosts, func(h []byte) bool { return hasText(h, c.slot.Name) })
	}
	names := func(it *item, n *cache.Slot) bool { return it.have.NamesSlot(n) || it.lastSent().NamesSlot(n) }
	for _, e := range s.items[resource.Endpoints] {
		if !names(e, hop) {
			continue
		}
		if e.slot.Named() {
			return true
		}
		for _, c := range s.items[resource.Cluster] {
			if (c.stale || names(c, e.slot)) && reached(c) {
				return true
			}
		}
	}
	return false
}

// releaseHops removes hops from endpoints that requests reach only through a removed internal
// listener. Otherwise these endpoints would keep the listener forever. releaseHops first waits for
// the drain time.
func (s *Stream) releaseHops(now time.Time) {
	for _, l := range s.items[resource.Listener] {
		if l.want != nil || l.have == nil || l.stale {
			continue
		}
		routes := s.routesBehind(l)
		if routes == nil || s.leads(l.slot, routes, nil, now) {
			l.idle = time.Time{}
			continue
		}
		if l.idle.IsZero() {
			l.idle = now
		}
		until := l.idle.Add(s.config.Drain)
		for _, e := range s.items[resource.Endpoints] {
			last := e.lastSent()
			switch {
			case !last.NamesSlot(l.slot) || !s.isBehind(e, routes):
			case now.Before(until):
				s.flushAt(until)
			default:
				e.want = withoutHops(last,
					slices.DeleteFunc(slices.Clone(last.Names), func(n *cache.Slot) bool { return !isHop(n) }))
				s.dirty(e, true, now)
			}
		}
	}
}

func (s *Stream) routesBehind(l *item) *item {
	for _, n := range l.have.Names {
		if it := s.items[n.Type][n]; n.Type == resource.RouteConfiguration && it != nil && it.have != nil && !it.stale {
			return it
		}
	}
	return nil
}

func (s *Stream) isBehind(e, routes *item) bool {
	for _, c := range s.items[resource.Cluster] {
		if routes.have.NamesSlot(c.slot) && c.have.NamesSlot(e.slot) {
			return true
		}
	}
	return false
}

func hasText(message []byte, text string) bool {
	return bytes.Contains(message, protowire.AppendString(nil, text))
}

func (s *Stream) staleNames(host *cache.Slot, but *item, now time.Time) bool {
	wait, until := s.mayNameStale(host, but, now)
	if wait {
		s.flushAt(until)
	}
	return wait
}
