package hub

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// toPeers is what peers receive of a member, beside its decisions.
type toPeers struct {
	endpoints map[registry.Pool][]inferenceapi.ImportedEndpoint
	// denied are the exports that the member is not allowed, and why.
	denied map[registry.Pool]string
	// since is when an export became another one, or the peers others, while peers are waited for.
	since map[registry.Pool]time.Time
}

// Publication is what a member exports to the peers.
type Publication struct {
	// UID is that of the member's cluster.
	UID string
	// Exports are within what the member is allowed, with their endpoints; sorted by pool.
	Exports []export.Export
	// Draining: the peers send it no new request. Connected: its API server answers.
	Draining, Connected bool
}

// Peer is a member whose Penstock exchanges exports through this process: it receives Publications, and what it exports reaches the Members by Apply.
// It is no Member.
type Peer struct {
	Name string
	// Allow limits what its exports do in the Members.
	Allow v1alpha1.ClusterSetAllow
}

// SetPeers replaces the peers. The exports of one that is none any more drain.
func (h *Hub) SetPeers(list []Peer) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	next := make([]*peer, 0, len(list))
	same := len(list) == len(h.peers)
	for _, is := range list {
		p := h.peer(is.Name)
		if p == nil {
			p, same = &peer{since: h.cfg.Now()}, false
		}
		if !reflect.DeepEqual(p.Peer, is) {
			p.Peer, same = is, false
			p.judge()
		}
		next = append(next, p)
	}
	if same {
		return
	}
	slices.SortFunc(next, func(a, b *peer) int { return strings.Compare(a.Name, b.Name) })
	h.peers = next
	h.meet(&c)
	for _, m := range h.sorted() {
		for _, p := range h.peers {
			h.give(&c, p, m, true)
		}
		for p, d := range m.decisions {
			if d.Export != nil {
				m.toPeers.wait(p, h.cfg.Now())
			}
		}
	}
	h.others(&c)
}

func (h *Hub) peer(name string) *peer {
	i := slices.IndexFunc(h.peers, func(p *peer) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return h.peers[i]
}

// Publication is what a member exports to the peers; false before it has been read.
func (h *Hub) Publication(name string) (out Publication, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	if m == nil || !m.read {
		return out, false
	}
	out = Publication{UID: m.uid, Draining: m.Draining, Connected: m.connected}
	for p, d := range m.decisions {
		if _, denied := m.toPeers.denied[p]; d.Export == nil || denied {
			continue
		}
		e := *d.Export
		e.Entry.Endpoints = m.toPeers.endpoints[p]
		out.Exports = append(out.Exports, e)
	}
	slices.SortFunc(out.Exports, func(a, b export.Export) int { return a.Pool.Compare(b.Pool) })
	if most := m.Allow.Endpoints; most != nil {
		left := int(*most)
		for i := range out.Exports {
			e := &out.Exports[i].Entry
			e.Endpoints = e.Endpoints[:min(len(e.Endpoints), left)]
			left -= len(e.Endpoints)
		}
	}
	return out, true
}

// publish notes that a member's Publication may have changed. mu is held.
func (h *Hub) publish(c *changes, m *member) {
	var pools []registry.Pool
	denied := map[registry.Pool]string{}
	for p, d := range m.decisions {
		switch {
		case d.Export == nil:
		case len(m.Allow.Namespaces) > 0 && !slices.Contains(m.Allow.Namespaces, p.Namespace):
			denied[p] = fmt.Sprintf("allow.namespaces of the member in the hub's ClusterSet does not have %s; add it there", p.Namespace)
		default:
			pools = append(pools, p)
		}
	}
	slices.SortFunc(pools, registry.Pool.Compare)
	if most := m.Allow.Exports; most != nil && len(pools) > int(*most) {
		for _, p := range pools[*most:] {
			denied[p] = fmt.Sprintf("the hub's ClusterSet lets it export %d pools, and others come first by namespace and name", *most)
		}
	}
	m.toPeers.denied = denied
	c.published = append(c.published, m.Name)
}

// incarnate gives an export its incarnation: 0 if it is among the first of the member that are known, that of the one before if there is one for all of
// its members, else another one. mu is held.
func (h *Hub) incarnate(m *member, before, now *export.Export) {
	switch {
	case now == nil:
		return
	case now.Continues(before):
		now.Incarnation = before.Incarnation
		return
	case m.read:
		now.Incarnation = rand.Uint64() | 1
	}
	if len(h.peers) > 0 {
		m.toPeers.wait(now.Pool, h.cfg.Now())
	}
}

func (t *toPeers) wait(p registry.Pool, now time.Time) {
	if t.since == nil {
		t.since = map[registry.Pool]time.Time{}
	}
	t.since[p] = now
}

// overdue ends the wait for peers, and returns the pools that they were waited for of. mu is held.
func (h *Hub) overdue(m *member) (pools []registry.Pool) {
	for p, since := range m.toPeers.since {
		if h.cfg.Now().Sub(since) >= h.cfg.Grace {
			delete(m.toPeers.since, p)
			pools = append(pools, p)
		}
	}
	return pools
}

// atPeers is where an export of a member stands at the peers. pending: one has not reported it, and is waited for. mu is held.
func (h *Hub) atPeers(m *member, d export.Decision) (list []registry.Placement, pending bool) {
	if d.Export == nil || len(h.peers) == 0 {
		return nil, false
	}
	var reported []registry.Placement
	if h.cfg.Placements != nil {
		reported = h.cfg.Placements(m.Name, d.Pool)
	}
	_, waited := m.toPeers.since[d.Pool]
	why, denied := m.toPeers.denied[d.Pool]
	for _, peer := range h.peers {
		name := peer.Name
		if d.Export.To != nil && !slices.Contains(d.Export.To, name) {
			continue
		}
		if denied {
			list = append(list, registry.Placement{Member: name, Pool: d.Pool, Reason: imports.NotAllowedReason, Message: why, Any: true})
			continue
		}
		if i := slices.IndexFunc(reported, func(p registry.Placement) bool { return p.Member == name && d.Export.Has(p) }); i >= 0 {
			list = append(list, reported[i])
		} else if waited {
			pending = true
		}
	}
	return list, pending
}
