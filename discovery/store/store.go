package store

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Rows is the answer to one read: objects of one table, sorted by primary key. Only a Table looks inside.
type Rows struct{ list []any }

// Len is the number of rows.
func (r Rows) Len() int { return len(r.list) }

// Reader answers reads. A View is one; so is whatever remembers what was read on its way to a View.
type Reader interface {
	// Rows reads one key of one index of one table.
	Rows(table, index, key string) Rows
}

// Op is one operation of a batch: made by a Table's Put or Delete.
type Op struct {
	table interface {
		Kind() string
		keys(any) []IndexKey
	}
	id  string
	obj any // nil: delete
}

// Change is what a revision did to one object.
type Change struct {
	Table   string     // the kind
	ID      string     // primary key
	Deleted bool       // the object is gone
	Keys    []IndexKey // every key of every index that the old or the new object has, ByID and ByAll included
}

// Revision is one commit.
type Revision struct {
	N       uint64 // counts up from 1
	Changes []Change
}

// Store is the one source of objects. Safe for use by many.
type Store struct {
	mu   sync.Mutex
	n    uint64
	now  trees
	last trees // what of them Views of revision n read
	subs map[*Subscription]struct{}
}

// New makes an empty store with every table of Tables.
func New() (*Store, error) {
	s := &Store{now: newTrees(), subs: map[*Subscription]struct{}{}}
	s.last = s.now.after(trees{}, nil)
	return s, nil
}

// Apply carries out a batch in one transaction and returns its revision. A batch that changes nothing makes no
// revision: it returns the current number with no changes. Of several operations on one object the last one counts. It
// fails as a whole if an object has no name.
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
	for _, op := range lastOfEach(ops) {
		if change := s.apply(op); change != nil {
			rev.Changes = append(rev.Changes, *change)
			tables[change.Table] = struct{}{}
		}
	}
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

// apply carries out one operation; nil if it changes nothing.
func (s *Store) apply(op Op) *Change {
	table := op.table.Kind()
	old := s.now.get(table, op.id)
	change := &Change{Table: table, ID: op.id, Deleted: op.obj == nil}
	switch {
	case op.obj == nil && old == nil:
		return nil
	case op.obj == nil:
		change.Keys = op.table.keys(old)
		s.now.remove(table, op.id, change.Keys)
		return change
	case old != nil && equality.Semantic.DeepEqual(old, op.obj):
		return nil
	}
	change.Keys = op.table.keys(op.obj)
	var before []IndexKey
	if old != nil {
		before = op.table.keys(old)
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
	out := ops[:0:0]
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

// View is the world at the newest revision, for as long as the caller wants to look at it.
func (s *Store) View() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &View{n: s.n, trees: s.last}
}

// View is one consistent world. It is safe for use by many and needs no closing.
type View struct {
	n     uint64
	trees trees
}

// Revision is the number of the revision that the view shows; 0 before the first.
func (v *View) Revision() uint64 { return v.n }

// Rows implements Reader.
func (v *View) Rows(table, index, key string) Rows {
	list, ok := v.trees.list(table, index, key)
	if !ok {
		panic(fmt.Sprintf("store: there is no table %s with index %s", table, index))
	}
	return Rows{list}
}

// Subscription collects revisions for one reader, who never misses one and never holds the writer up.
type Subscription struct {
	store   *Store
	mu      sync.Mutex
	pending []Revision
	wake    chan struct{}
}

// Subscribe starts a subscription with everything that is in the store now, as one revision whose changes name each
// object.
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

// Everything lists each object of a view as a change: what a reader that knows nothing yet has to look at.
func Everything(v *View) []Change {
	var out []Change
	for _, t := range Tables() {
		for _, o := range v.Rows(t.Kind(), ByAll, "").list {
			keys := t.keys(o)
			out = append(out, Change{Table: t.Kind(), ID: keys[0].Key, Keys: keys})
		}
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

// Next waits until there is something new and returns all of it, oldest first, with a view that is at least as new
// as the last revision returned. It fails only with its context.
func (sub *Subscription) Next(ctx context.Context) ([]Revision, *View, error) {
	for {
		sub.mu.Lock()
		revs := sub.pending
		sub.pending = nil
		sub.mu.Unlock()
		if len(revs) > 0 {
			return revs, sub.store.View(), nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-sub.wake:
		}
	}
}

// Pending is what Next would return at once: nothing, if there is nothing new.
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
