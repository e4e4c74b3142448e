package store

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/go-memdb"
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
	db *memdb.MemDB

	mu   sync.Mutex
	n    uint64
	last *memdb.MemDB // snapshot at revision n
	subs map[*Subscription]struct{}
}

// New makes an empty store with every table of Tables.
func New() (*Store, error) {
	schema := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	for _, t := range Tables() {
		schema.Tables[t.Kind()] = t.schema()
	}
	db, err := memdb.NewMemDB(schema)
	if err != nil {
		return nil, fmt.Errorf("store schema: %w", err)
	}
	return &Store{db: db, last: db.Snapshot(), subs: map[*Subscription]struct{}{}}, nil
}

// Apply carries out a batch in one transaction and returns its revision. A batch that changes nothing makes no
// revision: it returns the current number with no changes. Of several operations on one object the last one counts.
func (s *Store) Apply(ops ...Op) (Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	txn := s.db.Txn(true)
	defer txn.Abort()
	rev := Revision{N: s.n}
	for _, op := range lastOfEach(ops) {
		change, err := applyOne(txn, op)
		if err != nil {
			return rev, fmt.Errorf("store %s %s: %w", op.table.Kind(), op.id, err)
		}
		if change != nil {
			rev.Changes = append(rev.Changes, *change)
		}
	}
	if len(rev.Changes) == 0 {
		return rev, nil
	}
	txn.Commit()
	s.n++
	rev.N = s.n
	s.last = s.db.Snapshot()
	for sub := range s.subs {
		sub.push(rev)
	}
	return rev, nil
}

func applyOne(txn *memdb.Txn, op Op) (*Change, error) {
	table := op.table.Kind()
	old, err := txn.First(table, ByID, op.id)
	if err != nil {
		return nil, err
	}
	change := &Change{Table: table, ID: op.id, Deleted: op.obj == nil}
	switch {
	case op.obj == nil && old == nil:
		return nil, nil
	case op.obj == nil:
		change.Keys = op.table.keys(old)
		return change, txn.Delete(table, old)
	case old != nil && equality.Semantic.DeepEqual(old, op.obj):
		return nil, nil
	}
	change.Keys = op.table.keys(op.obj)
	if old != nil {
		for _, k := range op.table.keys(old) {
			if !slices.Contains(change.Keys, k) {
				change.Keys = append(change.Keys, k)
			}
		}
	}
	return change, txn.Insert(table, op.obj)
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
	return &View{n: s.n, txn: s.last.Txn(false)}
}

// View is one consistent world. It is safe for use by many and needs no closing.
type View struct {
	n   uint64
	txn *memdb.Txn
}

// Revision is the number of the revision that the view shows; 0 before the first.
func (v *View) Revision() uint64 { return v.n }

// Rows implements Reader.
func (v *View) Rows(table, index, key string) Rows {
	var (
		it  memdb.ResultIterator
		err error
	)
	if index == ByAll {
		it, err = v.txn.Get(table, ByID)
	} else {
		it, err = v.txn.Get(table, index, key)
	}
	if err != nil { // a table or index that does not exist
		panic(fmt.Sprintf("store: read %s by %s: %v", table, index, err))
	}
	var rows Rows
	for o := it.Next(); o != nil; o = it.Next() {
		// An object with a repeated key comes twice in a row: memdb orders rows of one key by primary key.
		if n := len(rows.list); n == 0 || rows.list[n-1] != o {
			rows.list = append(rows.list, o)
		}
	}
	return rows
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
	view := &View{n: s.n, txn: s.last.Txn(false)}
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
