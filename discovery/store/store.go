package store

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Rows is the result of one read: objects of one table, sorted by primary key.
type Rows struct{ list []any }

func (r Rows) Len() int { return len(r.list) }

// Reader serves reads. View implements it, and so does the translator's graph, which records each
// read.
type Reader interface {
	// Rows returns the objects with one key in one index of one table.
	Rows(table, index, key string) Rows
}

// Op is one operation of a batch for Apply. A Table makes Ops (Put, Delete).
type Op struct {
	table interface {
		Kind() string
		Unpack(packed any) Object
		same(a, b any) bool
		keys(id string, obj any) []IndexKey
	}
	id  string
	obj any // the object in the table's form (Pack); nil: delete
}

// Kind returns the name of the table.
func (o Op) Kind() string { return o.table.Kind() }

// ID returns the primary key of the object.
func (o Op) ID() string { return o.id }

// Object returns the object to store; nil for a deletion.
func (o Op) Object() Object {
	if o.obj == nil {
		return nil
	}
	return o.table.Unpack(o.obj)
}

// Change describes the change of one object in a revision.
type Change struct {
	Table   string     // name of the table, which is the kind
	ID      string     // primary key of the object
	Deleted bool       // the object was deleted
	Keys    []IndexKey // all keys of the old and the new object, including ByID and ByAll
}

// Revision is the result of one Apply.
type Revision struct {
	N       uint64 // number of the revision, from 1, without gaps
	Changes []Change
}

// Store holds all tables. Its methods are safe for concurrent use.
type Store struct {
	mu   sync.Mutex
	n    uint64
	now  trees
	last trees // a snapshot of now, shared by all Views of revision n
	subs map[*Subscription]struct{}

	astray   map[string]bool       // AccessPolicies that have former targets
	gone     map[report.Ref]Object // the lost targets of AccessPolicies
	recalled trees                 // objects from Recall; nil after the next Apply
}

// New makes an empty store with all Tables.
func New() *Store {
	s := &Store{now: newTrees(), subs: map[*Subscription]struct{}{}, astray: map[string]bool{},
		gone: map[report.Ref]Object{}}
	s.last = s.now.after(trees{}, nil)
	return s
}

// Apply commits a batch in one transaction and returns its revision. For a batch without effect, it
// returns the current revision, without changes. Of several operations on one object, the last
// takes effect. If an object has no name, Apply returns an error and commits nothing.
func (s *Store) Apply(ops ...Op) (Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rev := Revision{N: s.n}
	for _, op := range ops {
		if op.id == "" {
			return rev, fmt.Errorf("store: a %s has no name", op.table.Kind())
		}
	}
	tables := map[string]struct{}{}
	apply := func(ops []Op) {
		for _, op := range ops {
			if change := s.apply(op); change != nil {
				rev.Changes = append(rev.Changes, *change)
				tables[change.Table] = struct{}{}
			}
		}
	}
	var policies, others []Op
	for _, op := range lastOfEach(ops) {
		if op.Kind() == AccessPolicies.Kind() {
			policies = append(policies, op)
		} else {
			others = append(others, op)
		}
	}
	before := &View{trees: s.last}
	if s.recalled != nil {
		before.trees = s.recalled
	}
	apply(others)
	apply(s.withFormer(before, rev.Changes, policies))
	s.recalled = nil
	if len(rev.Changes) == 0 {
		return rev, nil
	}
	s.n++
	rev.N = s.n
	s.last = s.now.after(s.last, tables)
	for sub := range s.subs {
		sub.push(rev)
	}
	return rev, nil
}

// Recall passes objects that existed when an earlier process ended. If a target of an AccessPolicy
// is missing after the next Apply, the policy gets former targets. Readers never see the recalled
// objects.
func (s *Store) Recall(ops ...Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recalled = newTrees()
	for _, op := range ops {
		if op.obj != nil {
			s.recalled.put(op.table.Kind(), op.id, op.obj, op.table.keys(op.id, op.obj))
		}
	}
}

func (s *Store) apply(op Op) *Change {
	table := op.table.Kind()
	old := s.now.get(table, op.id)
	change := &Change{Table: table, ID: op.id, Deleted: op.obj == nil}
	switch {
	case op.obj == nil && old == nil:
		return nil
	case op.obj == nil:
		change.Keys = op.table.keys(op.id, old)
		s.now.remove(table, op.id, change.Keys)
		return change
	case old != nil && op.table.same(old, op.obj):
		return nil
	}
	change.Keys = op.table.keys(op.id, op.obj)
	var before []IndexKey
	if old != nil {
		before = op.table.keys(op.id, old)
	}
	s.now.remove(table, op.id, before)
	s.now.put(table, op.id, op.obj, change.Keys)
	for _, k := range before {
		if !slices.Contains(change.Keys, k) {
			change.Keys = append(change.Keys, k)
		}
	}
	return change
}

func lastOfEach(ops []Op) []Op {
	type key struct{ table, id string }
	at := make(map[key]int, len(ops))
	out := make([]Op, 0, len(ops))
	for _, op := range ops {
		k := key{op.table.Kind(), op.id}
		if i, ok := at[k]; ok {
			out[i] = op
			continue
		}
		at[k] = len(out)
		out = append(out, op)
	}
	return out
}

// View returns a snapshot of the newest revision.
func (s *Store) View() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &View{n: s.n, trees: s.last}
}

// View is a snapshot of all tables. It is safe for concurrent use, may be kept indefinitely, and
// needs no Close.
type View struct {
	n     uint64
	trees trees
}

// Revision returns the number of the view's revision; 0 before the first.
func (v *View) Revision() uint64 { return v.n }

// Rows implements Reader.
func (v *View) Rows(table, index, key string) Rows {
	list, ok := v.trees.list(table, index, key)
	if !ok {
		panic(fmt.Sprintf("store: no table %s with index %s", table, index))
	}
	return Rows{list}
}

// Subscription queues all revisions for one reader. It never blocks the writer.
type Subscription struct {
	store   *Store
	mu      sync.Mutex
	pending []Revision
	wake    chan struct{}
}

// Subscribe starts a subscription. Its first revision has a change for each object in the store.
func (s *Store) Subscribe() *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := &Subscription{store: s, wake: make(chan struct{}, 1)}
	s.subs[sub] = struct{}{}
	view := &View{n: s.n, trees: s.last}
	if rev := (Revision{N: s.n, Changes: Everything(view)}); len(rev.Changes) > 0 {
		sub.push(rev)
	}
	return sub
}

// Everything returns a change for each object of a view, for a new reader.
func Everything(v *View) []Change {
	var out []Change
	for _, t := range Tables() {
		v.trees.each(t.Kind(), func(e entry) {
			out = append(out, Change{Table: t.Kind(), ID: e.id, Keys: t.keys(e.id, e.obj)})
		})
	}
	return out
}

func (sub *Subscription) push(rev Revision) {
	sub.mu.Lock()
	sub.pending = append(sub.pending, rev)
	sub.mu.Unlock()
	select {
	case sub.wake <- struct{}{}:
	default:
	}
}

// Next waits for revisions and returns all queued revisions, the oldest first. The view is at least
// as new as the last revision. Next fails only if ctx ends.
func (sub *Subscription) Next(ctx context.Context) ([]Revision, *View, error) {
	for {
		if revs, view := sub.Pending(); len(revs) > 0 {
			return revs, view, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-sub.wake:
		}
	}
}

// Ready returns a channel that is readable after a revision was queued. Pending may have emptied
// the queue since then.
func (sub *Subscription) Ready() <-chan struct{} { return sub.wake }

// Pending is like Next, but does not wait.
func (sub *Subscription) Pending() ([]Revision, *View) {
	sub.mu.Lock()
	revs := sub.pending
	sub.pending = nil
	sub.mu.Unlock()
	return revs, sub.store.View()
}

// Close ends the subscription.
func (sub *Subscription) Close() {
	sub.store.mu.Lock()
	defer sub.store.mu.Unlock()
	delete(sub.store.subs, sub)
}
