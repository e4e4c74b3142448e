package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store/rows"
)

// Placement states whether one member imports a pool that this cluster exports.
type Placement struct {
	Member string
	Pool   objectid.Pool
	// Reason states why the member does not import the pool; "": the member imports it.
	Reason, Message string
	// Incarnation is the Incarnation of the export that the member reports on. Any means that the
	// member's release reports no incarnation, so the report counts for every incarnation.
	Incarnation uint64
	Any         bool
}

// Listed joins the first eight texts, and counts the others.
func Listed(texts []string) string {
	const most = 8
	out := strings.Join(texts[:min(len(texts), most)], ", ")
	if more := len(texts) - most; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// Reports are a member's reports on this cluster's exports.
type Reports struct {
	Member string
	// Snapshot means that Placed has all reports of the member, so its other reports are dropped.
	Snapshot bool
	Placed   []Placement
	// Gone are the pools whose reports the member retracts.
	Gone []objectid.Pool
}

// Place stores a member's reports. It ignores clusters that are not members.
func (r *Registry) Place(in Reports) {
	r.write(func(t txn) {
		if t.member(in.Member) == nil {
			return
		}
		if in.Snapshot {
			stays := make(map[objectid.Pool]bool, len(in.Placed))
			for _, p := range in.Placed {
				stays[p.Pool] = true
			}
			t.unplace(in.Member, func(p objectid.Pool) bool { return !stays[p] })
		}
		for _, p := range in.Gone {
			if old := rows.First[Placement](t, placementTable, exportKey(in.Member, p)); old != nil {
				rows.Must(t.Delete(placementTable, old))
			}
		}
		for _, p := range in.Placed {
			p.Member = in.Member
			if old := rows.First[Placement](t, placementTable, exportKey(p.Member, p.Pool)); old == nil || *old != p {
				rows.Must(t.Insert(placementTable, &p))
			}
		}
	})
}

func (t txn) unplace(member string, match func(objectid.Pool) bool) {
	for _, p := range slices.Collect(rows.Walk[Placement](t, nil, placementTable, rows.ByID, rows.Key(member))) {
		if match(p.Pool) {
			rows.Must(t.Delete(placementTable, p))
		}
	}
}

// Placements returns the members' reports on a pool that this cluster exports, sorted by member. ws
// may be nil.
func (r *Registry) Placements(ws WatchSet, p objectid.Pool) (out []Placement) {
	for pl := range rows.Walk[Placement](r.read(), ws, placementTable, byPool, poolKey(p)) {
		out = append(out, *pl)
	}
	return out
}
