package deployments

import (
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// wanted returns the derived objects, and the deployments that own their names. It decides which
// deployments conflict.
func (k *Keeper) wanted() (out map[object]store.Object, owners map[string]bool) {
	out, owners = map[object]store.Object{}, map[string]bool{}
	claims := map[string]string{}
	for _, id := range k.order() {
		e := k.entries[id]
		e.conflict, e.kept = nil, false
		if e.plan == nil {
			continue
		}
		objects := map[object]store.Object{}
		for _, obj := range e.plan.Objects(k.servers(id, e)) {
			objects[object{kindOf(obj), id}] = obj
		}
		if e.conflict = k.otherOwner(e, claims); e.conflict == nil {
			e.conflict = k.usersObject(id, objects)
			e.kept = e.conflict != nil && k.saved.Owners[id]
		}
		if e.conflict == nil {
			maps.Copy(out, objects)
		} else if !e.kept {
			continue
		}
		owners[id] = true
		for _, claim := range e.plan.Claims() {
			claims[claim.Key] = id
		}
	}
	return out, owners
}

// otherOwner reports a name in requests that another deployment owns.
func (k *Keeper) otherOwner(e *entry, claims map[string]string) *report.Finding {
	for _, claim := range e.plan.Claims() {
		if other, taken := claims[claim.Key]; taken {
			return &report.Finding{Severity: report.Error, Field: claim.Field,
				Problem: fmt.Sprintf("ModelDeployment %s serves %s at the same Gateway", other, claim.Model),
				Fix:     "write another name, other hostnames or another Gateway"}
		}
	}
	return nil
}

// usersObject reports a user's object that has the name of a derived one. ModelServers is derived
// once a server is ready: without the check before, the servers would start and stop in turns.
func (k *Keeper) usersObject(id string, objects map[object]store.Object) *report.Finding {
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

// order lists the deployments that own names first: they keep them, over restarts, too. Of new
// deployments, the one whose model has a name precedes those whose adapters have it.
func (k *Keeper) order() (out []string) {
	var added []string
	for _, id := range slices.Sorted(maps.Keys(k.entries)) {
		if k.saved.Owners[id] {
			out = append(out, id)
		} else {
			added = append(added, id)
		}
	}
	models := map[string]int{} // deployments left, by the claim of their model
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
		})) // the first one if adapters and models exclude each other in a circle
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

// eachClaim calls f for the claims of a deployment.
func (k *Keeper) eachClaim(id string, f func(key string, adapter bool)) {
	p := k.entries[id].plan
	if p == nil {
		return
	}
	for _, claim := range p.Claims() {
		f(claim.Key, claim.Model != p.ServedName)
	}
}
