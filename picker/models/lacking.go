package models

import (
	"net/netip"
	"slices"

	"github.com/penstock-project/penstock/picker/endpoint"
)

type view struct {
	listed  map[string]bool
	lacking map[string]*Lacking
}

// Lacking lists the servers of a pool that lack a model. It is immutable.
type Lacking struct {
	Unlisted, NotFound int  // servers that lack the model, by their list and by a 404
	Strict             bool // all servers that lack the model answer 404
	has                map[netip.AddrPort]bool
	lacks              map[netip.AddrPort]bool
	unknown            map[netip.AddrPort]bool // servers with an unknown list; the map is shared
	others             func(*endpoint.Endpoint) bool
	keep               func(*endpoint.Endpoint) bool
}

// Keep returns a filter for the servers that may have the model.
func (l *Lacking) Keep() func(*endpoint.Endpoint) bool { return l.keep }

// Others returns the negation of Keep.
func (l *Lacking) Others() func(*endpoint.Endpoint) bool { return l.others }

func (l *Lacking) keeps(server netip.AddrPort) bool {
	return !l.lacks[server] && (l.has[server] || l.unknown[server])
}

func (h *Holders) rebuild() {
	v := &view{listed: map[string]bool{}, lacking: map[string]*Lacking{}}
	holders, unknown, total := map[string]map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}, 0
	read := false
	for server, s := range h.servers {
		read = read || !s.asked.IsZero()
		if total += len(s.names); len(s.names) == 0 || total > maxListed {
			unknown[server] = true
			continue
		}
		for _, name := range s.names {
			if holders[name] == nil {
				holders[name] = map[netip.AddrPort]bool{}
			}
			holders[name][server], v.listed[name] = true, true
		}
	}
	for _, list := range [][]mark{h.marks, h.answers} {
		for _, m := range list {
			if holders[m.model] == nil {
				holders[m.model] = map[netip.AddrPort]bool{}
			}
		}
	}
	for name, has := range holders {
		if l := h.lack(name, has, unknown); l != nil {
			v.lacking[name] = l
		}
	}
	if !read {
		v = nil
	}
	h.view.Store(v)
}

func (h *Holders) refresh(models ...string) {
	old := h.view.Load()
	if old == nil {
		h.rebuild()
		return
	}
	next := &view{listed: old.listed, lacking: make(map[string]*Lacking, len(old.lacking)+1)}
	for name, l := range old.lacking {
		next.lacking[name] = l
	}
	for _, model := range models {
		has, unknown := map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
		for server, s := range h.servers {
			if len(s.names) == 0 {
				unknown[server] = true
			} else if _, found := slices.BinarySearch(s.names, model); found {
				has[server] = true
			}
		}
		delete(next.lacking, model)
		if l := h.lack(model, has, unknown); l != nil {
			next.lacking[model] = l
		}
	}
	h.view.Store(next)
}

// lack returns the Lacking of a model, or nil. has is the set of servers that list the model. The
// caller holds h.mu.
func (h *Holders) lack(model string, has, unknown map[netip.AddrPort]bool) *Lacking {
	l := &Lacking{has: has, unknown: unknown, lacks: map[netip.AddrPort]bool{}, Strict: true}
	for _, m := range h.answers {
		if m.model == model {
			has[m.server] = true
		}
	}
	for _, m := range h.marks {
		if m.model == model {
			l.lacks[m.server] = true
			delete(has, m.server)
		}
	}
	for server, s := range h.servers {
		switch {
		case l.lacks[server]:
			l.NotFound++
			if _, listed := slices.BinarySearch(s.names, model); listed {
				l.Strict = false // the list may be old, or the 404 may have another cause
			}
		case !l.keeps(server):
			l.Unlisted++
			l.Strict = l.Strict && s.strict
		}
	}
	if l.Unlisted+l.NotFound == 0 {
		return nil
	}
	if len(has)+l.NotFound == 0 {
		return nil
	}
	l.keep = func(e *endpoint.Endpoint) bool { return l.keeps(e.Addr) }
	l.others = func(e *endpoint.Endpoint) bool { return !l.keeps(e.Addr) }
	return l
}
