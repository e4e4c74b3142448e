package store

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Object is what a table holds: any Kubernetes API type.
type Object interface {
	metav1.Object
	runtime.Object
}

// The two indexes that every table has.
const (
	// ByID is the primary key, "namespace/name" or "name".
	ByID = "id"
	// ByAll has the one key "", which every row has: reading it is reading the whole table.
	ByAll = "all"
)

// Index is a further way to ask a table for rows.
type Index[T Object] struct {
	Name string
	Keys func(T) []string // the keys under which an object is found; may be none, may repeat
}

// Table is the typed handle of one kind's table. It holds no data: rows come from the Reader that is passed in.
type Table[T Object] struct {
	group, kind string
	clusterWide bool
	indexes     []Index[T]
}

// Kind is the kind's name, which is also the table's.
func (t *Table[T]) Kind() string { return t.kind }

// Group is the kind's API group; empty for core.
func (t *Table[T]) Group() string { return t.group }

// Namespaced says whether the kind's objects live in a namespace.
func (t *Table[T]) Namespaced() bool { return !t.clusterWide }

// Ref names an object of the table by its primary key.
func (t *Table[T]) Ref(obj T) report.Ref {
	return report.Ref{Group: t.group, Kind: t.kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Get returns the object with a primary key.
func (t *Table[T]) Get(r Reader, id string) (obj T, ok bool) {
	rows := r.Rows(t.kind, ByID, id)
	if rows.Len() == 0 {
		return obj, false
	}
	return rows.list[0].(T), true
}

// By returns the objects that have a key in an index, sorted by primary key. An unknown index is a mistake in the
// program and panics.
func (t *Table[T]) By(r Reader, index, key string) []T {
	rows := r.Rows(t.kind, index, key)
	out := make([]T, rows.Len())
	for i := range out {
		out[i] = rows.list[i].(T)
	}
	return out
}

// All returns every object of the kind, sorted by primary key.
func (t *Table[T]) All(r Reader) []T { return t.By(r, ByAll, "") }

// Put is the operation that stores obj.
func (t *Table[T]) Put(obj T) Op { return Op{table: t, id: ID(obj), obj: obj} }

// Delete is the operation that removes the object with a primary key; removing what is not there is no change.
func (t *Table[T]) Delete(id string) Op { return Op{table: t, id: id} }

// New returns an empty object of the kind, for decoding into.
func (t *Table[T]) New() Object {
	var zero T
	return reflect.New(reflect.TypeOf(zero).Elem()).Interface().(Object)
}

// Object is Get for a caller that chose the table by name.
func (t *Table[T]) Object(r Reader, id string) (Object, bool) {
	obj, ok := t.Get(r, id)
	return obj, ok
}

// PutObject is Put for a caller that chose the table by name; obj must be of the table's kind.
func (t *Table[T]) PutObject(obj Object) Op { return t.Put(obj.(T)) }

// ID is an object's primary key.
func ID(obj metav1.Object) string {
	if ns := obj.GetNamespace(); ns != "" {
		return ns + "/" + obj.GetName()
	}
	return obj.GetName()
}

// Kind is what is known of a table without its type: how a writer that reads kinds by name finds its table.
type Kind interface {
	Kind() string
	Group() string
	Namespaced() bool
	New() Object
	Object(r Reader, id string) (Object, bool)
	PutObject(Object) Op
	Delete(id string) Op
	// Keys lists the keys under which an object of the kind is found, ByID first.
	Keys(Object) []IndexKey

	indexNames() []string // but for ByAll
	keys(obj any) []IndexKey
}

// IndexKey is one key of one index: what a change touches, and what a reader can have asked for.
type IndexKey struct{ Index, Key string }

// Keys implements Kind.
func (t *Table[T]) Keys(obj Object) []IndexKey { return t.keys(obj) }

func (t *Table[T]) keys(obj any) []IndexKey {
	o := obj.(T)
	keys := []IndexKey{{ByID, ID(o)}, {ByAll, ""}}
	for _, ix := range t.indexes {
		for _, k := range ix.Keys(o) {
			keys = append(keys, IndexKey{ix.Name, k})
		}
	}
	return keys
}

func (t *Table[T]) indexNames() []string {
	names := []string{ByID}
	for _, ix := range t.indexes {
		names = append(names, ix.Name)
	}
	return names
}
