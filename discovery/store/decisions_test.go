package store

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func shownTypes(f func(table string, t reflect.Type)) {
	seen := map[reflect.Type]bool{}
	var walk func(table string, t reflect.Type)
	walk = func(table string, t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(table, t.Elem())
		case reflect.Struct:
			if seen[t] || slices.Contains(values, t) {
				return
			}
			seen[t] = true
			f(table, t)
			for i := range t.NumField() {
				if decisions[t][t.Field(i).Name] == whole {
					walk(table, t.Field(i).Type)
				}
			}
		}
	}
	for _, table := range Tables() {
		walk(table.Kind(), reflect.TypeOf(table.New()).Elem())
	}
}

// decisions must list each field of each type that pages may show. A new field is hidden until it
// is listed.
func TestShow_EveryFieldIsDecided(t *testing.T) {
	used := map[reflect.Type]bool{}
	shownTypes(func(table string, typ reflect.Type) {
		used[typ] = true
		if typ.Implements(marshaler) || reflect.PointerTo(typ).Implements(marshaler) {
			t.Errorf("%s: %s has a JSON form of its own: add it to values, or choose sizes or omit for its field",
				table, typ)
			return
		}
		fields, ok := decisions[typ]
		if !ok {
			var names []string
			for i := range typ.NumField() {
				names = append(names, fmt.Sprintf("%q", typ.Field(i).Name))
			}
			t.Errorf("%s: nothing is decided about %s: add decide[%s](shown(%s))", table, typ, typ,
				strings.Join(names, ", "))
			return
		}
		rest := maps.Clone(fields)
		for i := range typ.NumField() {
			field := typ.Field(i)
			if delete(rest, field.Name); fields[field.Name] == undecided {
				t.Errorf("%s: it is not decided how %s.%s is shown", table, typ, field.Name)
			}
			kind := field.Type
			for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Map {
				kind = kind.Elem()
			}
			if fields[field.Name] == whole && kind == reflect.TypeFor[[]byte]() {
				t.Errorf("%s: bytes of %s.%s cannot be shown: choose certified, sizes or omit", table, typ, field.Name)
			}
		}
		for name := range rest {
			t.Errorf("%s: %s has no field %s", table, typ, name)
		}
	})
	for typ := range decisions {
		if !used[typ] {
			t.Errorf("a decision about %s, which no table shows", typ)
		}
	}
}
