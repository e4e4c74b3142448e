package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/penstock-project/penstock/discovery/store"
)

// Text is the value of one field, which no other field has.
type Text struct {
	Value string
	Path  string // "spec.rules[0].name"
	// Secret: no page may print it, by the decision about the field (store.Quotable).
	Secret bool
}

// values have no text.
var values = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[resource.Quantity](),
	reflect.TypeFor[intstr.IntOrString](),
}

// Filled returns an object of a kind with a text in each of its fields, at any depth. Headers are named Authorization.
func Filled(kind store.Kind) (store.Object, []Text) {
	f := &filler{kind: kind}
	obj := kind.New()
	f.fill(reflect.ValueOf(obj).Elem(), "", false)
	return obj, f.texts
}

type filler struct {
	kind  store.Kind
	texts []Text
}

// mark makes a text. hidden: whatever is decided about its field.
func (f *filler) mark(path string, hidden bool) string {
	text := fmt.Sprintf("canary-%s-%04d.", strings.ToLower(f.kind.Kind()), len(f.texts))
	f.texts = append(f.texts, Text{text, path, hidden || !store.Quotable(f.kind, path)})
	return text
}

func (f *filler) fill(v reflect.Value, path string, hidden bool) {
	switch t := v.Type(); {
	case slices.Contains(values, t):
	case t == reflect.TypeFor[runtime.RawExtension](), t == reflect.TypeFor[metav1.FieldsV1]():
		v.FieldByName("Raw").SetBytes([]byte(`{"token": "` + f.mark(path, true) + `"}`))
	case t == reflect.TypeFor[[]byte]():
		v.SetBytes([]byte(f.mark(path, true)))
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		f.fill(v.Elem(), path, hidden)
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
		f.fill(v.Index(0), path+"[0]", hidden)
	case t.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(t))
		f.entry(v, "name", path, hidden)
		if path == "metadata.annotations" {
			f.entry(v, corev1.LastAppliedConfigAnnotation, path, true)
		}
	case t.Kind() == reflect.Struct:
		f.fillStruct(v, path, hidden)
	case t.Kind() == reflect.String:
		v.SetString(f.mark(path, hidden))
	}
}

func (f *filler) entry(of reflect.Value, key, path string, hidden bool) {
	value := reflect.New(of.Type().Elem()).Elem()
	f.fill(value, path+"."+key, hidden)
	of.SetMapIndex(reflect.ValueOf(key).Convert(of.Type().Key()), value)
}

func (f *filler) fillStruct(v reflect.Value, path string, hidden bool) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		of := path
		if name != "" || !field.Anonymous {
			if name == "" {
				name = field.Name
			}
			of = strings.TrimPrefix(path+"."+name, ".")
		}
		named := field.Name == "Name" && v.FieldByName("Value").IsValid()
		if named && !store.Quotable(f.kind, strings.TrimPrefix(path+".value", ".")) {
			v.Field(i).SetString("Authorization")
			continue
		}
		f.fill(v.Field(i), of, hidden)
	}
}
