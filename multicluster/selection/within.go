package selection

import "slices"

// Place is the location of a member.
type Place struct {
	Name         string
	Region, Zone string // "": unknown
}

// Within limits the members to which requests may go, by name and by region. An empty list allows
// all. If both lists are set, a member must match both.
type Within struct {
	Clusters []string
	Regions  []string
}

// Allows reports whether requests may go to a member. A member with an unknown region matches no
// list of regions.
func (w *Within) Allows(p Place) bool {
	return (len(w.Clusters) == 0 || slices.Contains(w.Clusters, p.Name)) &&
		(len(w.Regions) == 0 || p.Region != "" && slices.Contains(w.Regions, p.Region))
}
