package hub

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// peer is a Peer as an exporter: all that it exports, with its own UID and stamps.
type peer struct {
	Peer
	since     time.Time // when it became a peer
	read      bool      // all that it exports is known
	connected bool
	uid       string
	stamp     registry.Stamp
	draining  bool
	exports   map[registry.Pool]passed
}

// passed is an export of a peer.
type passed struct {
	registry.Export
	to []string // the members that it is for
	// reason and message are why no member is given it; "": they are.
	reason, message string
	entry           inferenceapi.ImportedCluster // as members have it
}

// Apply takes over what a peer exports, without endpoints: u has its own UID and stamps. to are the members that each of u.Exports and u.Unread is for.
// Of what cannot be read the version before stays.
func (h *Hub) Apply(u registry.Update, to map[registry.Pool][]string) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.peer(u.Member)
	if p == nil || !p.read && !u.Snapshot {
		return
	}
	all := u.Snapshot || p.uid != u.UID
	before := p.exports
	if u.Snapshot || p.exports == nil {
		p.exports = map[registry.Pool]passed{}
	}
	for pool, why := range u.Unread {
		e, known := before[pool]
		if !known {
			e = passed{Export: registry.Export{Pool: pool}, to: to[pool], reason: imports.NotSupportedReason, message: why}
		}
		p.exports[pool] = e
	}
	for _, e := range u.Exports {
		p.exports[e.Pool] = p.judged(passed{Export: e, to: to[e.Pool]})
		all = true
	}
	for _, pool := range u.Withdrawn {
		delete(p.exports, pool)
		all = true
	}
	p.read, p.connected, p.uid, p.stamp, p.draining = true, true, u.UID, u.Stamp, u.Draining
	for _, m := range h.sorted() {
		h.give(&c, p, m, all)
	}
}

// Connected notes that a peer is not connected any more. One that is again has Apply called.
func (h *Hub) Connected(name string, is bool) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.peer(name)
	if p == nil || is {
		return
	}
	p.connected = false
	for _, m := range h.sorted() {
		h.assemble(&c, m, m.registry.Connected(name, false))
	}
}

// give passes what a peer exports to a member: all, or that it is there. mu is held.
func (h *Hub) give(c *changes, p *peer, m *member, all bool) {
	if !p.read || !m.restored {
		return
	}
	u := registry.Update{Member: p.Name, UID: p.uid, Stamp: p.stamp, Draining: p.draining}
	if is, _ := m.registry.Member(p.Name); all || is.UID != p.uid { // another cluster has had the name, and its lease ran on
		u.Snapshot = true
		for _, pool := range slices.SortedFunc(maps.Keys(p.exports), registry.Pool.Compare) {
			if e := p.exports[pool]; e.reason == "" && slices.Contains(e.to, m.Name) {
				is := e.Export
				is.Entry = *e.entry.DeepCopy()
				u.Exports = append(u.Exports, is)
			}
		}
	}
	changed, _ := m.registry.Apply(u)
	if !p.connected {
		changed = append(changed, m.registry.Connected(p.Name, false)...)
	}
	h.assemble(c, m, changed)
	if all {
		c.stand(h, m)
	}
}

func (h *Hub) settledPeer(p *peer) bool { return p.read || h.cfg.Now().Sub(p.since) >= h.cfg.Grace }

// judge decides again which exports members are given.
func (p *peer) judge() {
	for pool, e := range p.exports {
		if e.Entry.RoutingMode != "" { // else it was never read
			p.exports[pool] = p.judged(e)
		}
	}
}

// judged is an export as members are given it: within what the peer is allowed, and as a gateway without a certificate of the cluster set reaches it.
func (p *peer) judged(e passed) passed {
	e.entry, e.reason, e.message = *e.Entry.DeepCopy(), "", ""
	if e.Entry.EndpointPicker != nil && e.Entry.EndpointPicker.Peer {
		e.reason, e.message = imports.NotSupportedReason, "its picker serves Gateways of Penstocks alone: start penstock there with --picker-open"
		return e
	}
	e.entry.Parents = slices.DeleteFunc(e.entry.Parents, func(g inferenceapi.ParentImport) bool { return g.Peer })
	if len(e.entry.Parents) == 0 && len(e.Entry.Parents) > 0 {
		e.reason, e.message = imports.NotSupportedReason, fmt.Sprintf("its Gateways serve those of Penstocks alone, at their peer listener: start penstock there with --offer %s/%s", e.Pool.Namespace, e.Pool.Name)
		return e
	}
	if at, ok := outside(e.entry, p.Allow.Addresses); ok {
		e.reason, e.message = imports.NotAllowedReason, fmt.Sprintf("%s is outside of spec.members[%s].allow.addresses of the hub's ClusterSet", at, p.Name)
		return e
	}
	var any bool
	if e.entry.PodCIDRs, any = narrowed(e.entry.PodCIDRs, p.Allow); !any {
		e.reason, e.message = imports.NotAllowedReason, fmt.Sprintf("the ranges of its pods are outside of spec.members[%s].allow.podCIDRs of the hub's ClusterSet", p.Name)
	}
	return e
}

// narrowed are the parts of a cluster's ranges of pods that it is allowed; false: there are none. Without ranges it has those that it is allowed.
func narrowed(ranges []string, allow v1alpha1.ClusterSetAllow) (out []string, any bool) {
	if len(ranges) == 0 || len(allow.PodCIDRs) == 0 {
		return slices.Concat(ranges, allow.PodCIDRs), true
	}
	for _, is := range ranges {
		r, err := netip.ParsePrefix(is)
		for _, may := range allow.PodCIDRs {
			a, bad := netip.ParsePrefix(may)
			switch {
			case err != nil || bad != nil || !r.Overlaps(a):
			case r.Bits() >= a.Bits():
				out = append(out, is)
			default:
				out = append(out, may)
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out, len(out) > 0
}

// stand notes that where exports of peers stand at a member may have changed. mu is held.
func (c *changes) stand(h *Hub, m *member) {
	if len(h.peers) > 0 {
		c.stands = append(c.stands, m.Name)
	}
}

// Standings are where exports of peers stand at a member: Placement.Member is the exporting one. Those that are pending have not been written there
// yet. known is false until all have been, or are waited for no longer: after a restart, what was reported before stays.
func (h *Hub) Standings(name string) (placed, pending []registry.Placement, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	if m == nil || !m.read {
		return nil, nil, false
	}
	over := h.cfg.Now().Sub(m.since) >= 2*h.cfg.Grace
	for _, p := range h.peers {
		if !h.settledPeer(p) {
			return nil, nil, false
		}
		if !p.read { // what was imported before this process has begun
			for _, pool := range slices.SortedFunc(maps.Keys(m.placed), registry.Pool.Compare) {
				if is, waits := m.standing(p.Name, pool); !waits {
					is.Member = p.Name
					placed = append(placed, is)
				}
			}
			continue
		}
		for _, pool := range slices.SortedFunc(maps.Keys(p.exports), registry.Pool.Compare) {
			e := p.exports[pool]
			if !slices.Contains(e.to, name) {
				continue
			}
			is := registry.Placement{Member: p.Name, Pool: pool, Reason: e.reason, Message: e.message}
			waits := false
			if e.reason == "" {
				is, waits = m.standing(p.Name, pool)
			}
			is.Member, is.Any, is.Incarnation = p.Name, false, e.Incarnation
			if waits {
				pending = append(pending, is)
			} else {
				placed = append(placed, is)
			}
		}
	}
	return placed, pending, over || len(pending) == 0
}
