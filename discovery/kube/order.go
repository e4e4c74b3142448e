package kube

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// Each kind has its own watch, so events of two kinds may arrive in the wrong order. Example: a
// user moves a route to a new Service and deletes the old Service. If the deletion arrives first,
// Envoy responds with 500 to requests on the route. So the deletion of a backend is held back for
// watchSkew. A route to a backend that has not arrived is held back, too.

const watchSkew = 250 * time.Millisecond

// order holds back events that may have arrived too early. It is safe for concurrent use.
type order struct {
	mu        sync.Mutex
	deletions map[report.Ref]*held
	routes    map[report.Ref]*held
}

// held is an event that is held back. apply is called with order.mu locked.
type held struct {
	apply   func()
	missing map[string]bool // store.TargetKeys of the backends that a route waits for
	timer   *time.Timer
}

func newOrder() *order {
	return &order{deletions: map[report.Ref]*held{}, routes: map[report.Ref]*held{}}
}

// put calls apply, which stores an object. It first waits for missing backends of the object, at
// most for watchSkew. It drops an earlier event of the same object that is held back.
func (o *order) put(ref report.Ref, missing []string, apply func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(ref)
	if len(missing) > 0 {
		h := o.hold(o.routes, ref, apply)
		h.missing = map[string]bool{}
		for _, key := range missing {
			h.missing[key] = true
		}
		return
	}
	apply()
	key := store.TargetKey(ref.Kind, ref.Namespace, ref.Name)
	for route, h := range o.routes {
		if delete(h.missing, key); len(h.missing) == 0 {
			o.drop(route)
			h.apply()
		}
	}
}

// remove calls apply, which deletes an object. It delays the deletion of a backend by watchSkew,
// because a route may just have moved away from the backend.
func (o *order) remove(ref report.Ref, backend bool, apply func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(ref)
	if backend {
		o.hold(o.deletions, ref, apply)
		return
	}
	apply()
}

func (o *order) hold(in map[report.Ref]*held, ref report.Ref, apply func()) *held {
	h := &held{apply: apply}
	in[ref] = h
	h.timer = time.AfterFunc(watchSkew, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if in[ref] == h {
			delete(in, ref)
			h.apply()
		}
	})
	return h
}

// The caller holds mu.
func (o *order) drop(ref report.Ref) {
	for _, in := range []map[report.Ref]*held{o.deletions, o.routes} {
		if h := in[ref]; h != nil {
			h.timer.Stop()
			delete(in, ref)
		}
	}
}

// missing returns the store.TargetKeys of a route's backends that have not arrived. It returns nil
// if the store already has this generation of the route: a change of only the status need not wait.
func (s *Source) missing(k *kind, obj store.Object) (keys []string) {
	if k.role != isRoute {
		return nil
	}
	if old, ok := k.table.Object(s.store.View(), store.ID(obj)); ok && old.GetGeneration() == obj.GetGeneration() &&
		old.GetUID() == obj.GetUID() {
		return nil
	}
	for _, key := range k.table.Keys(obj) {
		if key.Index != store.ByBackend {
			continue
		}
		name, id := store.ParseTargetKey(key.Key)
		if exists, followed := s.backendExists(name, id); followed && !exists {
			keys = append(keys, key.Key)
		}
	}
	return keys
}

func (s *Source) backendExists(name, id string) (exists, followed bool) {
	s.mu.Lock()
	var intakes []*intake
	for _, k := range s.kinds {
		if k.table.Kind() != name || k.role != isBackend {
			continue
		}
		for _, p := range s.wholeParts(k) {
			if f := s.parts[p]; f != nil {
				intakes = append(intakes, f.intake)
			}
		}
	}
	s.mu.Unlock()
	for _, in := range intakes {
		followed = true
		if in.has(id) {
			return true, true
		}
	}
	return false, followed
}
