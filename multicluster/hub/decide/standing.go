package decide

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

// Writing is the result of writing an import at a member.
type Writing struct {
	// Clusters are the exporting clusters that have an entry of this hub in the import.
	Clusters []string
	// Reason states why other entries are missing, for the condition Exported; "": none is missing.
	Reason, Message string
	// Left has, for each cluster whose entry the API server rejects, the reason.
	Left map[string]string
	// Pruned means that the CRD at the member lacks status.clusters. Only Penstock can then read
	// the entries.
	Pruned bool
}

// Written stores the result of writing the import of a pool at a member.
func (h *Hub) Written(name string, p objectid.Pool, w Writing) {
	c, end := h.begin()
	defer end()
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
			add(c.exports, o.Name, p)
		}
	}
}

// Settled reports whether the hub has read a member's exports, or no longer waits for them because
// Config.Grace has passed.
func (h *Hub) Settled(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	return m == nil || h.settled(m)
}

func (h *Hub) settled(m *member) bool {
	return m.read || h.cfg.Now().Sub(m.since) >= h.cfg.Grace
}

// Condition returns the condition Exported of a member's pool. asked means that the annotations
// request an export. If known is false, the caller must keep the previous condition.
func (h *Hub) Condition(name string, p objectid.Pool) (condition report.Condition, asked, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	if m == nil || !m.read {
		return condition, false, false
	}
	return h.exported(m, p)
}

// The caller holds mu.
func (h *Hub) exported(m *member, p objectid.Pool) (condition report.Condition, asked, known bool) {
	d, ok := m.decisions[p]
	if !ok || !d.Asked {
		return condition, false, true
	}
	var names, pruned []string
	var list []registry.Placement
	for _, o := range h.sorted() {
		if o == m {
			continue
		}
		names = append(names, o.Name)
		if d.Export == nil || !d.Export.IsFor(o.Name) {
			continue
		}
		pl, pending := o.standing(m.Name, p)
		// An unwritten import delays the condition while the hub still waits for the importing
		// member's first read, or while that member responds.
		if pending && (!h.settled(o) || o.read && o.connected) {
			return condition, true, false
		}
		if !pending {
			list = append(list, pl)
		}
		if !pending && pl.Reason == "" && o.written[p].Pruned {
			pruned = append(pruned, o.Name)
		}
	}
	if condition = export.Exported(d, names, list); len(pruned) > 0 {
		condition.Message += fmt.Sprintf(
			"; by Penstock alone in %s, where the CRD of InferencePoolImport has no status.clusters",
			registry.Listed(pruned))
	}
	return condition, true, true
}

func brief(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	return strings.ToValidUTF8(message[:longestMessage], "") + "..."
}

// longestMessage bounds a message, in bytes.
const longestMessage = 512

const (
	Imported = "Imported"
	Pending  = "Pending"
)

// Status is a member's state for penstock hub.
type Status struct {
	Name string `json:"name"`
	// Read means that the member's exports are known. Connected means that its API server responds.
	Read      bool `json:"read"`
	Connected bool `json:"connected"`
	// Contacted is when its API server last responded; zero: never.
	Contacted time.Time `json:"contacted,omitzero"`
	// Exports counts the pools with export annotations, by state: Exported, Pending, or a reason of
	// the condition Exported.
	Exports map[string]int `json:"exports"`
	// Imports counts the other members' exports, by state: Imported, Pending, or a reason. Missing
	// has the reason of each missing export.
	Imports map[string]int    `json:"imports"`
	Missing map[string]string `json:"missing,omitempty"`
	// Pruned means that the CRD of InferencePoolImport at the member has no status.clusters.
	Pruned bool `json:"pruned,omitempty"`
}

// Status returns the members, sorted.
func (h *Hub) Status() []Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []Status{} // not nil, for an empty list in JSON
	for _, m := range h.sorted() {
		status := Status{Name: m.Name, Read: m.read, Connected: m.connected, Contacted: m.contacted,
			Exports: map[string]int{}, Imports: map[string]int{}}
		for p := range m.decisions {
			condition, asked, known := h.exported(m, p)
			switch {
			case !known:
				status.Exports[Pending]++
			case asked:
				status.Exports[condition.Reason]++
			}
		}
		for p, byCluster := range m.placed {
			status.Pruned = status.Pruned || m.written[p].Pruned
			for cluster := range byCluster {
				pl, pending := m.standing(cluster, p)
				state := Imported
				if pending {
					state = Pending
				} else if pl.Reason != "" {
					state = pl.Reason
				}
				if status.Imports[state]++; state != Imported {
					if status.Missing == nil {
						status.Missing = map[string]string{}
					}
					status.Missing[objectid.Member{Member: cluster, Pool: p}.String()] = strings.TrimSuffix(
						pl.Reason+": "+pl.Message, ": ")
				}
			}
		}
		out = append(out, status)
	}
	return out
}

// standing returns whether m imports the pool p of cluster. pending: the import is not written yet.
func (m *member) standing(cluster string, p objectid.Pool) (pl registry.Placement, pending bool) {
	pl, placed := m.placed[p][cluster]
	pl.Member, pl.Pool, pl.Any = m.Name, p, true
	w := m.written[p]
	switch {
	case !placed, !m.read: // before the first read, the member's namespaces are unknown
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

// within rejects an export that allow, the ClusterSet's limits for its member, excludes. It removes
// the endpoints, which never pass through an API server.
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

func (h *Hub) never(e inferenceapi.ImportedCluster) (at, why string) {
	for _, a := range addresses(e) {
		// Importers check host names after they have resolved them.
		if ip, err := netip.ParseAddr(a); err == nil && h.cfg.Never != nil {
			if why := h.cfg.Never(ip); why != "" {
				return a, why
			}
		}
	}
	return "", ""
}

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

func addresses(e inferenceapi.ImportedCluster) (out []string) {
	var services inferenceapi.ServiceImports
	if e.EndpointPicker != nil {
		services = append(services, e.EndpointPicker.Service...)
	}
	for _, p := range e.Parents {
		services = append(services, p.Service...)
	}
	for _, s := range services {
		out = append(out, s.Addresses...)
	}
	return out
}

// outside returns an address of the entry that is in none of the ranges. Without ranges, every
// address is allowed. With ranges, a host name counts as outside.
func outside(e inferenceapi.ImportedCluster, ranges []string) (string, bool) {
	if len(ranges) == 0 {
		return "", false
	}
	for _, a := range addresses(e) {
		ip, err := netip.ParseAddr(a)
		if err != nil || !slices.ContainsFunc(ranges, func(r string) bool {
			p, err := netip.ParsePrefix(r)
			return err == nil && p.Contains(ip.Unmap())
		}) {
			return a, true
		}
	}
	return "", false
}
