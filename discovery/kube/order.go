package kube

import (
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// Each kind has a watch of its own, and no watch waits for another. So who leads a route from one Service to a new one and
// deletes the old one may be understood in another order, and until all is told the route would lead nowhere: 500, an error
// of our own making. Nothing in the protocol says how far the other watches are, but they are rarely far apart. So a backend
// that is deleted stays for a moment, and a route that names one which is not there waits for it for a moment.

// disorder is how long what belongs together may take to be told.
const disorder = 250 * time.Millisecond

// order holds back what may have come too early. Safe for use by many.
type order struct {
	mu      sync.Mutex
	leaving map[report.Ref]*late // backends
	waiting map[report.Ref]*late // routes
}

// late is what is held back. apply is called with order.mu held.
type late struct {
	apply   func()
	missing map[string]bool // store.TargetKeys that a route waits for
	timer   *time.Timer
}

func newOrder() *order {
	return &order{leaving: map[report.Ref]*late{}, waiting: map[report.Ref]*late{}}
}

// come applies a version of an object: at once, or with the last of missing, or after a moment.
func (o *order) come(ref report.Ref, missing []string, apply func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(ref)
	if len(missing) > 0 {
		l := o.hold(o.waiting, ref, apply)
		l.missing = map[string]bool{}
		for _, key := range missing {
			l.missing[key] = true
		}
		return
	}
	apply()
	key := store.TargetKey(ref.Kind, ref.Namespace, ref.Name)
	for route, l := range o.waiting {
		if delete(l.missing, key); len(l.missing) == 0 {
			o.forget(route)
			l.apply()
		}
	}
}

// goAway applies a deletion, after a moment if there may be those who have just left the object.
func (o *order) goAway(ref report.Ref, left bool, apply func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(ref)
	if left {
		o.hold(o.leaving, ref, apply)
		return
	}
	apply()
}

// hold holds something back. mu is held.
func (o *order) hold(in map[report.Ref]*late, ref report.Ref, apply func()) *late {
	l := &late{apply: apply}
	in[ref] = l
	l.timer = time.AfterFunc(disorder, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if in[ref] == l {
			delete(in, ref)
			l.apply()
		}
	})
	return l
}

// forget lets go of what is held back of an object. mu is held.
func (o *order) forget(ref report.Ref) {
	for _, in := range []map[report.Ref]*late{o.leaving, o.waiting} {
		if l := in[ref]; l != nil {
			l.timer.Stop()
			delete(in, ref)
		}
	}
}

// missing are the backends of a route that the API server has not told of, as store.TargetKeys; none if the route leads where it
// did before, as when its status was written. Kinds that are not there, or that we do not know, are nobody's to wait for.
func (s *Source) missing(k *kind, obj store.Object) (keys []string) {
	if k.role != isRoute {
		return nil
	}
	if old, ok := k.table.Object(s.store.View(), store.ID(obj)); ok && old.GetGeneration() == obj.GetGeneration() && old.GetUID() == obj.GetUID() {
		return nil
	}
	for _, key := range k.table.Keys(obj) {
		if key.Index != store.ByBackend {
			continue
		}
		name, id, _ := strings.Cut(key.Key, " ")
		if told, known := s.told(name, id); known && !told {
			keys = append(keys, key.Key)
		}
	}
	return keys
}

// told says whether the API server has told of an object, by the name of its kind; known, whether it tells of such.
func (s *Source) told(name, id string) (told, known bool) {
	s.mu.Lock()
	var intakes []*intake
	for _, k := range s.kinds {
		if k.table.Kind() != name || k.role != isBackend {
			continue
		}
		if f := s.parts[part{kind: k}]; f != nil {
			intakes = append(intakes, f.intake)
		}
	}
	s.mu.Unlock()
	for _, in := range intakes {
		known = true
		if in.has(id) {
			return true, true
		}
	}
	return false, known
}
