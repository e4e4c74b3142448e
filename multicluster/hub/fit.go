package hub

import (
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/export"
)

// unfit is an export that no import may have, and why. to are the members that it is for; nil: all.
type unfit struct {
	why string
	to  []string
}

// overhead is what an export costs in memory beside its entry, in bytes: names, and entries of maps
// and tables.
const overhead = 512

// fit leaves out the export of a decision that no import may have: the API servers of the others
// would reject the import as a whole. The version before stays with them. h.mu is held.
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
		"; until that is corrected, others keep the version before, if they have one"
	return d
}

// Unfit returns what a member exports that the others do not import because no import may have it,
// or because they have no room: the first such pools by name, each with the reason, and how many
// more there are.
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
