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
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Text is the value of one field in a filled object. No other field has the same value.
type Text struct {
	Value string
	Path  string // "spec.rules[0].name"
	// Secret means that pages must not print the text (store.Quotable).
	Secret bool
}

var values = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](),
	reflect.TypeFor[resource.Quantity](),
	reflect.TypeFor[intstr.IntOrString](),
	reflect.TypeFor[v1alpha1.DeviceCount](),
}

// Filled returns an object with a text in each field, at any depth. Headers are named
// Authorization, so pages hide their values.
func Filled(kind store.Kind) (store.Object, []Text) {
	return fill(&filler{kind: kind, prefix: "canary"})
}

// WithCredentials returns an object with a credential in each field, at any depth, except in names.
// The credentials have forms that users write into visible fields, such as the userinfo of a URL.
func WithCredentials(kind store.Kind) (store.Object, []Text) {
	return fill(&filler{kind: kind, prefix: "hidden", forms: []string{
		"/v1/models?api_key=%s", "https://user:%s@example.com/v1", "Bearer %s", "a path /v1?a=b&token=%s&c=d",
	}})
}

func fill(f *filler) (store.Object, []Text) {
	obj := f.kind.New()
	f.fill(reflect.ValueOf(obj).Elem(), "", false)
	return obj, f.texts
}

type filler struct {
	kind   store.Kind
	prefix string
	forms  []string // formats of credentials, used in turn; empty: plain texts
	texts  []Text
}

func (f *filler) mark(path string, hidden bool) string {
	text := fmt.Sprintf("%s-%s-%04d.", f.prefix, strings.ToLower(f.kind.Kind()), len(f.texts))
	if len(f.forms) > 0 && !isName(path) {
		f.texts = append(f.texts, Text{text, path, true})
		return fmt.Sprintf(f.forms[len(f.texts)%len(f.forms)], text)
	}
	f.texts = append(f.texts, Text{text, path, hidden || !store.Quotable(f.kind, path)})
	return text
}

// isName reports whether a field must have the form of a name. Names identify reports and rows, so
// they hold no credential.
func isName(path string) bool {
	name := path[strings.LastIndexByte(path, '.')+1:]
	return name == "name" && !strings.HasPrefix(path, "metadata.annotations") ||
		strings.HasPrefix(path, "metadata.") && !strings.HasPrefix(path, "metadata.annotations")
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

func (f *filler) entry(entries reflect.Value, key, path string, hidden bool) {
	value := reflect.New(entries.Type().Elem()).Elem()
	f.fill(value, path+"."+key, hidden)
	entries.SetMapIndex(reflect.ValueOf(key).Convert(entries.Type().Key()), value)
}

func (f *filler) fillStruct(v reflect.Value, path string, hidden bool) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type == reflect.TypeFor[[]v1alpha1.FormerTarget]() {
			continue // TargetRefs shows the names of targets
		}
		inner := path
		if name != "" || !field.Anonymous {
			if name == "" {
				name = field.Name
			}
			inner = strings.TrimPrefix(path+"."+name, ".")
		}
		named := field.Name == "Name" && v.FieldByName("Value").IsValid()
		if named && !store.Quotable(f.kind, strings.TrimPrefix(path+".value", ".")) {
			v.Field(i).SetString("Authorization")
			continue
		}
		f.fill(v.Field(i), inner, hidden)
	}
}
