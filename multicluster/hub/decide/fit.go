package decide

import (
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/export"
)

type unfit struct {
	why string
	to  []string
}

// overhead is the memory of an export in addition to its entry, in bytes.
const overhead = 512

// fit rejects an export that the schema of imports does not allow: API servers would reject the
// whole import. The caller holds h.mu.
func (m *member) fit(d export.Decision) export.Decision {
	if d.Export == nil {
		return d
	}
	size, bad := d.Export.Entry.Violation()
	if bad == nil {
		m.sizes[d.Pool] = size + overhead
		return d
	}
	why := "its " + bad.Error()
	m.unfit[d.Pool] = unfit{why, d.Export.To}
	d.Export, d.Reason = nil, export.NotSupportedReason
	d.Message = "no import may have it: " + why +
		"; until that is corrected, members that have a previous version keep it"
	return d
}

// Unfit describes a member's exports that the schema of imports does not allow, or that exceed the
// member's share of the importers' registries. first has at most `most` descriptions; more counts
// the others.
func (h *Hub) Unfit(name string, most int) (first []string, more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	if m == nil {
		return nil, 0
	}
	if m.unnamed > 0 {
		first = append(first, fmt.Sprintf("%d InferencePools whose names are invalid", m.unnamed))
	}
	if m.crowded != "" {
		first = append(first, m.crowded)
	}
	for _, p := range slices.SortedFunc(maps.Keys(m.unfit), objectid.Pool.Compare) {
		if len(first) >= most {
			more++
			continue
		}
		first = append(first, fmt.Sprintf("InferencePool %s: %s", p, m.unfit[p].why))
	}
	return first, more
}
