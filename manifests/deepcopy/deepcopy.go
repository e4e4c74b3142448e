package deepcopy

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Of returns a copy that shares no memory with v; nil if v is nil.
func Of[T any](v *T) *T {
	if v == nil {
		return nil
	}
	out := *v
	copyInto(reflect.ValueOf(&out).Elem())
	return &out
}

func copyInto(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
			*q = q.DeepCopy()
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				copyInto(v.Field(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			copyInto(v.Index(i))
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(out, v)
		if k := v.Type().Elem().Kind(); k > reflect.Complex128 && k != reflect.String {
			for i := range out.Len() {
				copyInto(out.Index(i))
			}
		}
		v.Set(out)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		out := reflect.MakeMapWithSize(v.Type(), v.Len())
		for each := v.MapRange(); each.Next(); {
			out.SetMapIndex(each.Key(), copied(each.Value()))
		}
		v.Set(out)
	case reflect.Pointer:
		if !v.IsNil() {
			v.Set(copied(v.Elem()).Addr())
		}
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(copied(v.Elem()))
		}
	}
}

func copied(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	copyInto(out)
	return out
}
