package store_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/discovery/store/storetest"
)

// Users change copies while other goroutines read the stored objects, so copies must share no
// memory.
func TestTables_CopiesShareNothing(t *testing.T) {
	for _, kind := range store.Tables() {
		obj, _ := storetest.Filled(kind)
		c := obj.DeepCopyObject()
		if !reflect.DeepEqual(obj, c) {
			t.Errorf("copy of a %s: got %+v, want %+v", kind.Kind(), c, obj)
		}
		for _, path := range shared(reflect.ValueOf(obj).Elem(), reflect.ValueOf(c).Elem(), kind.Kind()) {
			t.Errorf("a %s and its copy share %s, want nothing", kind.Kind(), path)
		}
	}
}

// shared returns the paths at which two equal values share memory.
func shared(a, b reflect.Value, path string) (out []string) {
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if a.IsNil() {
			return nil
		}
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		return shared(a.Elem(), b.Elem(), path)
	case reflect.Map:
		for _, key := range a.MapKeys() {
			out = append(out, shared(a.MapIndex(key), b.MapIndex(key), fmt.Sprintf("%s[%s]", path, key))...)
		}
	case reflect.Slice:
		for i := range a.Len() {
			out = append(out, shared(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if field := a.Type().Field(i); field.IsExported() {
				out = append(out, shared(a.Field(i), b.Field(i), path+"."+field.Name)...)
			}
		}
	}
	return out
}
