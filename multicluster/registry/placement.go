package registry

// Placement is where an export of this cluster has arrived: at one member.
type Placement struct {
	Member string
	Pool   Pool
	// Reason is why the member does not import it; "" if it does. Message describes it.
	Reason, Message string
}

// Place stores what members report of this cluster's exports. One stays, also when its pool is withdrawn, until the member reports
// otherwise.
func (r *Registry) Place(list ...Placement) {
	r.write(func(t txn) {
		for _, p := range list {
			if old := first[Placement](t, placementTable, exportKey(p.Member, p.Pool)); old == nil || *old != p {
				must(t.Insert(placementTable, &p))
			}
		}
	})
}

// Placements returns where an export of this cluster has arrived, sorted by member. ws, which may be nil, fires when Placements would
// return something else.
func (r *Registry) Placements(ws WatchSet, p Pool) (out []Placement) {
	for pl := range walk[Placement](txn{r.db.Txn(false)}, ws, placementTable, byPool, poolKey(p)) {
		out = append(out, *pl)
	}
	return out
}

// Failed returns the placements that have failed at a member, sorted by pool.
func (r *Registry) Failed(member string) (out []Placement) {
	for pl := range walk[Placement](txn{r.db.Txn(false)}, nil, placementTable, byFailed, key(member)) {
		out = append(out, *pl)
	}
	return out
}
