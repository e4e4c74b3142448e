package hub

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// Writing is what was written of an import at a member.
type Writing struct {
	// Clusters are those that the import has from this hub.
	Clusters []string
	// Reason is why others are missing, for the condition Exported; "": none are. Message describes
	// it.
	Reason, Message string
	// Left are clusters that are left out of it because its API server does not take them, and why.
	Left map[string]string
	// Pruned: the object has no field for clusters, so Penstock alone reads them there.
	Pruned bool
}

// Written notes what the import of a pool at a member has now.
func (h *Hub) Written(name string, p objectid.Pool, w Writing) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	if m == nil {
		return
	}
	old := m.written[p]
	w.Message = brief(w.Message)
	same := old.Reason == w.Reason && old.Message == w.Message && old.Pruned == w.Pruned && maps.Equal(old.Left, w.Left)
	if same && slices.Equal(old.Clusters, w.Clusters) && m.placed[p] != nil {
		return
	}
	if m.written[p] = w; len(w.Clusters)+len(w.Left) == 0 && w.Reason == "" {
		delete(m.written, p)
	}
	for _, o := range h.members {
		if _, ok := o.decisions[p]; ok {
			c.add(&c.exports, o.Name, p)
		}
	}
}

// Settled reports whether the exports of a cluster are known, or are waited for no longer.
func (h *Hub) Settled(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	return m == nil || h.settled(m)
}

func (h *Hub) settled(m *member) bool {
	return m.read || h.cfg.Now().Sub(m.since) >= h.cfg.Grace
}

// Condition is the condition Exported of a pool of a member. asked is false if its annotations ask
// for no export, and known if where it stands is not known yet: then what was written before stays.
func (h *Hub) Condition(name string, p objectid.Pool) (is report.Condition, asked, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	if m == nil || !m.read {
		return is, false, false
	}
	return h.exported(m, p)
}

// exported is Condition of a member that was read. mu is held.
func (h *Hub) exported(m *member, p objectid.Pool) (is report.Condition, asked, known bool) {
	d, ok := m.decisions[p]
	if !ok || !d.Asked {
		return is, false, true
	}
	var names, pruned []string
	var list []registry.Placement
	for _, o := range h.sorted() {
		if o == m {
			continue
		}
		names = append(names, o.Name)
		if d.Export == nil || d.Export.To != nil && !slices.Contains(d.Export.To, o.Name) {
			continue
		}
		pl, pending := o.standing(m.Name, p)
		// One that answers, and that cannot be read within the grace period, delays no condition.
		if pending && (!h.settled(o) || o.read && o.connected) {
			return is, true, false
		}
		if !pending {
			list = append(list, pl)
		}
		if !pending && pl.Reason == "" && o.written[p].Pruned {
			pruned = append(pruned, o.Name)
		}
	}
	if is = export.Exported(d, names, list); len(pruned) > 0 {
		more := ""
		if n := len(pruned) - mostPruned; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		is.Message += fmt.Sprintf(
			"; by Penstock alone in %s%s, where the CRD of InferencePoolImport has no status.clusters",
			strings.Join(pruned[:min(len(pruned), mostPruned)], ", "), more)
	}
	return is, true, true
}

// brief is what an API server of a member reports, as far as another member gets it in a condition.
func brief(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	return strings.ToValidUTF8(message[:longestMessage], "") + "..."
}

// longestMessage is in bytes.
const longestMessage = 512

// States of exports and imports, beside reasons.
const (
	Imported = "Imported"
	Pending  = "Pending" // to be written
)

// mostPruned is how many members a message names.
const mostPruned = 8

// Status is a member as penstock hub shows it.
type Status struct {
	Name string `json:"name"`
	// Read: all that it exports is known. Connected: its API server answers.
	Read      bool `json:"read"`
	Connected bool `json:"connected"`
	// Contacted is when its API server answered last; zero: never.
	Contacted time.Time `json:"contacted,omitzero"`
	// Exports are the pools that it exports, or is to, by state: Exported, Pending, or the reason
	// of the condition Exported.
	Exports map[string]int `json:"exports"`
	// Imports are the exports of others to it by state: Imported, Pending, or why they are not
	// imported; Missing names those that are not, and why.
	Imports map[string]int    `json:"imports"`
	Missing map[string]string `json:"missing,omitempty"`
	// Pruned: the CRD of InferencePoolImport there has no status.clusters, so Penstock alone reads
	// them.
	Pruned bool `json:"pruned,omitempty"`
}

// Status returns the members, sorted.
func (h *Hub) Status() []Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []Status{} // in JSON it is a list, too, while there are none
	for _, m := range h.sorted() {
		is := Status{Name: m.Name, Read: m.read, Connected: m.connected, Contacted: m.contacted,
			Exports: map[string]int{}, Imports: map[string]int{}}
		for p := range m.decisions {
			condition, asked, known := h.exported(m, p)
			switch {
			case !known:
				is.Exports[Pending]++
			case asked:
				is.Exports[condition.Reason]++
			}
		}
		for p, of := range m.placed {
			is.Pruned = is.Pruned || m.written[p].Pruned
			for cluster := range of {
				pl, pending := m.standing(cluster, p)
				state := Imported
				if pending {
					state = Pending
				} else if pl.Reason != "" {
					state = pl.Reason
				}
				if is.Imports[state]++; state != Imported {
					if is.Missing == nil {
						is.Missing = map[string]string{}
					}
					is.Missing[objectid.Member{Member: cluster, Pool: p}.String()] = strings.TrimSuffix(
						pl.Reason+": "+pl.Message, ": ")
				}
			}
		}
		out = append(out, is)
	}
	return out
}

// standing is where the export of a cluster stands at a member. pending: it has not been written
// there yet.
func (m *member) standing(cluster string, p objectid.Pool) (pl registry.Placement, pending bool) {
	pl, placed := m.placed[p][cluster]
	pl.Member, pl.Pool, pl.Any = m.Name, p, true
	w := m.written[p]
	switch {
	case !placed, !m.read: // before that, no namespace of it is known either
		return pl, true
	case pl.Reason != "" && pl.Reason != imports.ConflictReason:
		return pl, false
	case w.Left[cluster] != "":
		pl.Reason, pl.Message = imports.NotSupportedReason, brief(w.Left[cluster])
		return pl, false
	case slices.Contains(w.Clusters, cluster):
		pl.Reason, pl.Message = "", ""
		return pl, false
	case w.Reason != "":
		pl.Reason, pl.Message = w.Reason, w.Message
		return pl, false
	}
	return pl, pl.Reason == ""
}

// within is a decision within what the ClusterSet allows its member. Endpoints do not pass through
// an API server.
func (h *Hub) within(d export.Decision, allow v1alpha1.ClusterSetAllow) export.Decision {
	if d.Export == nil {
		return d
	}
	e := *d.Export
	e.Entry.Endpoints = nil
	if len(allow.PodCIDRs) > 0 {
		e.Entry.PodCIDRs = allow.PodCIDRs
	}
	d.Export = &e
	member := "spec.members[" + e.Entry.Name + "].allow"
	deny := func(format string, args ...any) export.Decision {
		d.Export, d.Reason, d.Message = nil, imports.NotAllowedReason, fmt.Sprintf(format, args...)
		return d
	}
	if at, ok := outside(e.Entry, allow.Addresses); ok {
		return deny("%s is outside of %s.addresses of the hub's ClusterSet", at, member)
	}
	if at, why := h.never(e.Entry); why != "" {
		return deny("%s is %s, which no import may have", at, why)
	}
	if parents := encrypted(e.Entry.Parents); !allow.Cleartext && len(parents) < len(e.Entry.Parents) {
		if e.Entry.Parents = parents; len(parents) == 0 {
			return deny(
				"its gateways are reached in cleartext, which %s.cleartext of the hub's ClusterSet does not allow",
				member)
		}
	}
	return d
}

// never is an address of an entry that no import may have, and why; "" if there is none.
func (h *Hub) never(e inferenceapi.ImportedCluster) (at, why string) {
	if h.cfg.Never == nil {
		return "", ""
	}
	for _, s := range services(e) {
		for _, a := range s.Addresses {
			if ip, err := netip.ParseAddr(a); err == nil { // importers judge what names resolve to
				if why := h.cfg.Never(ip); why != "" {
					return a, why
				}
			}
		}
	}
	return "", ""
}

// encrypted are the gateways that are reached over TLS.
func encrypted(parents []inferenceapi.ParentImport) (out []inferenceapi.ParentImport) {
	for _, p := range parents {
		cleartext := func(s inferenceapi.ServiceImport) bool {
			return len(s.Ports) == 0 || s.Ports[0].AppProtocol != "https"
		}
		if p.Peer || !slices.ContainsFunc(p.Service, cleartext) {
			out = append(out, p)
		}
	}
	return out
}

// services are those of an entry.
func services(e inferenceapi.ImportedCluster) (out inferenceapi.ServiceImports) {
	if e.EndpointPicker != nil {
		out = append(out, e.EndpointPicker.Service...)
	}
	for _, p := range e.Parents {
		out = append(out, p.Service...)
	}
	return out
}

// outside is an address of an entry that is in none of some ranges. Without ranges there is none;
// with ranges, a host name is one.
func outside(e inferenceapi.ImportedCluster, ranges []string) (string, bool) {
	if len(ranges) == 0 {
		return "", false
	}
	for _, s := range services(e) {
		for _, a := range s.Addresses {
			ip, err := netip.ParseAddr(a)
			if err != nil || !slices.ContainsFunc(ranges, func(r string) bool {
				p, err := netip.ParsePrefix(r)
				return err == nil && p.Contains(ip.Unmap())
			}) {
				return a, true
			}
		}
	}
	return "", false
}
