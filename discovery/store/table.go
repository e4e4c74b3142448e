package store

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// Object is any Kubernetes API type.
type Object interface {
	metav1.Object
	runtime.Object
}

const (
	// ByID is the primary key, "namespace/name" or "name".
	ByID = "id"
	// ByAll is an index in which all rows have the key "". A read of this key returns the table.
	ByAll = "all"
)

// Index is a secondary index of a table.
type Index[T Object] struct {
	Name string
	Keys func(T) []string // returns an object's keys: none, one or several, also equal ones
}

// Table is the typed handle of one kind's table. It holds no objects: its methods read from a
// Reader.
type Table[T Object] struct {
	group, kind string
	clusterWide bool
	indexes     []Index[T]
	packed      *packing[T] // optional; a packed kind has no indexes
	exact       bool        // Apply treats an empty list and a missing list as different
}

func (t *Table[T]) same(a, b any) bool {
	return equality.Semantic.DeepEqual(a, b) && (!t.exact || reflect.DeepEqual(a, b))
}

func (t *Table[T]) pack(obj T) any {
	if t.packed == nil {
		return obj
	}
	return t.packed.pack(obj)
}

func (t *Table[T]) unpack(stored any) T {
	if t.packed == nil {
		return stored.(T)
	}
	return t.packed.unpack(stored)
}

// Kind returns the name of the kind and of its table.
func (t *Table[T]) Kind() string { return t.kind }

// Group returns the API group; "" for the core group.
func (t *Table[T]) Group() string { return t.group }

// Namespaced reports whether the kind's objects have a namespace.
func (t *Table[T]) Namespaced() bool { return !t.clusterWide }

// Ref returns the ref of an object.
func (t *Table[T]) Ref(obj T) report.Ref {
	return report.Ref{Group: t.group, Kind: t.kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Get returns the object with a primary key.
func (t *Table[T]) Get(r Reader, id string) (obj T, ok bool) {
	rows := r.Rows(t.kind, ByID, id)
	if rows.Len() == 0 {
		return obj, false
	}
	return t.unpack(rows.list[0]), true
}

// By returns the objects with a key in an index, sorted by primary key. It panics for an unknown
// index.
func (t *Table[T]) By(r Reader, index, key string) []T {
	rows := r.Rows(t.kind, index, key)
	out := make([]T, rows.Len())
	for i := range out {
		out[i] = t.unpack(rows.list[i])
	}
	return out
}

// All returns all objects, sorted by primary key.
func (t *Table[T]) All(r Reader) []T { return t.By(r, ByAll, "") }

// IDs returns the sorted primary keys of the objects with a key in an index. It returns none if
// there are more than most, or if the index does not exist.
func IDs(r Reader, k Kind, index, key string, most int) []string {
	if !slices.Contains(k.indexNames(), index) {
		return nil
	}
	rows := r.Rows(k.Kind(), index, key)
	if rows.Len() > most {
		return nil
	}
	out := make([]string, rows.Len())
	for i := range out {
		out[i] = ID(k.Unpack(rows.list[i]))
	}
	return out
}

// Put returns the operation that stores obj.
func (t *Table[T]) Put(obj T) Op { return Op{table: t, id: ID(obj), obj: t.pack(obj)} }

// Pack returns the form in which the store keeps an object: for most kinds, the object itself.
func (t *Table[T]) Pack(obj Object) any { return t.pack(obj.(T)) }

// Unpack reverses Pack.
func (t *Table[T]) Unpack(packed any) Object { return t.unpack(packed) }

// PutPacked is Put for a result of Pack. id is the object's primary key.
func (t *Table[T]) PutPacked(id string, packed any) Op { return Op{table: t, id: id, obj: packed} }

// Delete returns the operation that removes an object, if it exists.
func (t *Table[T]) Delete(id string) Op { return Op{table: t, id: id} }

// New returns an empty object to decode into.
func (t *Table[T]) New() Object {
	var zero T
	return reflect.New(reflect.TypeOf(zero).Elem()).Interface().(Object)
}

// Object is Get for callers without the type.
func (t *Table[T]) Object(r Reader, id string) (Object, bool) {
	obj, ok := t.Get(r, id)
	return obj, ok
}

// PutObject is like Put, but panics for an object of another kind.
func (t *Table[T]) PutObject(obj Object) Op { return t.Put(obj.(T)) }

// ID returns an object's primary key.
func ID(obj metav1.Object) string {
	if ns := obj.GetNamespace(); ns != "" {
		return objectid.Join(ns, obj.GetName())
	}
	return obj.GetName()
}

// ParseID splits a primary key; namespace may be "".
func ParseID(id string) (namespace, name string) {
	if namespace, name, ok := objectid.Split(id); ok {
		return namespace, name
	}
	return "", id
}

// RefOf returns the ref of an object by its kind and primary key.
func RefOf(k Kind, id string) report.Ref {
	namespace, name := ParseID(id)
	return report.Ref{Group: k.Group(), Kind: k.Kind(), Namespace: namespace, Name: name}
}

// Kind is a Table without its type parameter, for callers that choose tables by name.
type Kind interface {
	Kind() string
	Group() string
	Namespaced() bool
	New() Object
	Object(r Reader, id string) (Object, bool)
	PutObject(Object) Op
	Delete(id string) Op
	Pack(Object) any
	Unpack(packed any) Object
	PutPacked(id string, packed any) Op
	// Keys returns an object's keys in all indexes, ByID first.
	Keys(Object) []IndexKey

	indexNames() []string
	keys(id string, obj any) []IndexKey
}

// IndexKey is one key of one index. A change affects a read if both have this IndexKey.
type IndexKey struct{ Index, Key string }

// Keys implements Kind.
func (t *Table[T]) Keys(obj Object) []IndexKey { return t.keys(ID(obj), obj) }

// keys returns an object's keys in all indexes. If a key equals the primary key, it shares the
// string, to save memory: translation keeps the keys on which its rows depend.
func (t *Table[T]) keys(id string, obj any) []IndexKey {
	keys := []IndexKey{{ByID, id}, {ByAll, ""}}
	if len(t.indexes) == 0 {
		return keys
	}
	o := t.unpack(obj)
	for _, ix := range t.indexes {
		for _, k := range ix.Keys(o) {
			if k == id {
				k = id
			}
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
