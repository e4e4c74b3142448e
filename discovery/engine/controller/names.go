package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// names decides who owns models' names in requests: the first owner, while its newest version has
// the name.
type names struct {
	before   map[string]string // previous owners, by Claim.Key
	reserved map[string]string // owners that still claim their name
	taken    map[string]string // owners of the names in use
}

// own chooses each deployment's version: the newest or, if it is invalid or another deployment owns
// its name, the last valid one. It returns the owners of names.
func (k *Keeper) own() (owners map[string]string) {
	n := names{before: k.saved.Names, reserved: map[string]string{}, taken: map[string]string{}}
	for _, e := range k.entries {
		e.plan, e.conflict, e.taken, e.kept = e.newest, nil, nil, false
	}
	beaten := k.settleNames(n, k.order(), func(e *entry) *deployment.Plan { return cmp.Or(e.newest, e.good()) })
	for _, id := range beaten {
		e := k.entries[id]
		e.taken = e.conflict
	}
	for _, id := range k.settleNames(n, beaten, (*entry).good) {
		e := k.entries[id]
		e.plan, e.conflict, e.taken = e.newest, e.taken, nil
	}
	for id, e := range k.entries {
		if e.plan != nil && e.plan == e.newest && e.taken == nil {
			e.last, k.saved.Good[id] = e.newest, e.deployment.Spec
		}
	}
	maps.Copy(n.reserved, n.taken)
	return n.reserved
}

// good returns the last valid version with the newest version's access control; nil: none.
func (e *entry) good() *deployment.Plan {
	if e.last == nil {
		return nil
	}
	return e.last.Gated(e.deployment)
}

// settleNames assigns the names that version(deployment) claims, in the order of ids. It returns
// the deployments without them, because others own a name.
func (k *Keeper) settleNames(n names, ids []string, version func(*entry) *deployment.Plan) (beaten []string) {
	plans := map[string]*deployment.Plan{}
	for _, id := range ids {
		if plans[id] = version(k.entries[id]); plans[id] != nil {
			n.reserve(id, plans[id])
		}
	}
	for _, id := range ids {
		e, p := k.entries[id], plans[id]
		if p != nil {
			e.plan, e.conflict = p, n.other(id, p)
		}
		if e.conflict != nil {
			beaten = append(beaten, id)
		}
		if e.conflict != nil || p == nil {
			continue
		}
		if e.conflict = k.usersObject(id, e); e.conflict != nil {
			e.kept = slices.Contains(slices.Collect(maps.Values(n.before)), id)
		}
		for _, claim := range p.Claims() {
			if e.conflict == nil || e.kept {
				n.taken[claim.Key] = id
			}
		}
	}
	return beaten
}

func (n names) reserve(id string, p *deployment.Plan) {
	for _, claim := range p.Claims() {
		if n.before[claim.Key] == id && n.reserved[claim.Key] == "" {
			n.reserved[claim.Key] = id
		}
	}
}

func (n names) other(id string, p *deployment.Plan) *report.Finding {
	for _, claim := range p.Claims() {
		other := cmp.Or(n.taken[claim.Key], n.reserved[claim.Key])
		if other != "" && other != id {
			return &report.Finding{Severity: report.Error, Field: claim.Field,
				Problem: fmt.Sprintf("ModelDeployment %s serves %s at the same Gateway", other, claim.Model),
				Fix:     "write another name, other hostnames or another Gateway"}
		}
	}
	return nil
}

// usersObject returns a finding if a user's object has a derived object's name. ModelServers counts
// before it is derived, because servers would otherwise start and stop in turns.
func (k *Keeper) usersObject(id string, e *entry) *report.Finding {
	objects := k.objects(id, e)
	for _, table := range deployment.Derived() {
		key := object{table.Kind(), id}
		if !k.users[key] || objects[key] == nil && key.kind != store.ModelServers.Kind() {
			continue
		}
		return &report.Finding{Severity: report.Error, Field: "metadata.name",
			Problem: fmt.Sprintf("there is another %s %s, which stays as it is", key.kind, id),
			Fix: "rename one of them: meanwhile the deployment routes no requests; servers that run go on, no other " +
				"starts"}
	}
	return nil
}

// order puts a deployment before all deployments whose adapters have the name of its model.
func (k *Keeper) order() (out []string) {
	added := slices.Sorted(maps.Keys(k.entries))
	models := map[string]int{} // deployments not in out yet, by the claim of their model
	for _, id := range added {
		k.eachClaim(id, func(key string, adapter bool) {
			if !adapter {
				models[key]++
			}
		})
	}
	for len(added) > 0 {
		next := max(0, slices.IndexFunc(added, func(id string) bool {
			free := true
			k.eachClaim(id, func(key string, adapter bool) { free = free && !(adapter && models[key] > 0) })
			return free
		})) // a circle of adapters and models starts with the first deployment
		k.eachClaim(added[next], func(key string, adapter bool) {
			if !adapter {
				models[key]--
			}
		})
		out = append(out, added[next])
		added = slices.Delete(added, next, next+1)
	}
	return out
}

func (k *Keeper) eachClaim(id string, f func(key string, adapter bool)) {
	p := cmp.Or(k.entries[id].newest, k.entries[id].last)
	if p == nil {
		return
	}
	for _, claim := range p.Claims() {
		f(claim.Key, claim.Model != p.ServedName)
	}
}
