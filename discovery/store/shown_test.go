package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// shownTypes calls f with each struct type that a page may show.
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

// A field that is new, of Penstock's types or of Kubernetes', is not shown before it is listed.
func TestShow_EveryFieldIsDecided(t *testing.T) {
	used := map[reflect.Type]bool{}
	shownTypes(func(table string, of reflect.Type) {
		used[of] = true
		if of.Implements(marshaler) || reflect.PointerTo(of).Implements(marshaler) {
			t.Errorf("%s: %s has a JSON form of its own: add it to values, or choose sizes or omit for its field", table, of)
			return
		}
		fields, ok := decisions[of]
		if !ok {
			var names []string
			for i := range of.NumField() {
				names = append(names, fmt.Sprintf("%q", of.Field(i).Name))
			}
			t.Errorf("%s: nothing is decided about %s: add decide[%s](shown(%s))", table, of, of, strings.Join(names, ", "))
			return
		}
		rest := maps.Clone(fields)
		for i := range of.NumField() {
			field := of.Field(i)
			if delete(rest, field.Name); fields[field.Name] == undecided {
				t.Errorf("%s: it is not decided how %s.%s is shown", table, of, field.Name)
			}
			kind := field.Type
			for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Map {
				kind = kind.Elem()
			}
			if fields[field.Name] == whole && kind == reflect.TypeFor[[]byte]() {
				t.Errorf("%s: bytes of %s.%s cannot be shown: choose certified, sizes or omit", table, of, field.Name)
			}
		}
		for name := range rest {
			t.Errorf("%s: %s has no field %s", table, of, name)
		}
	})
	for of := range decisions {
		if !used[of] {
			t.Errorf("a decision about %s, which no table shows", of)
		}
	}
}

// canary is one text in a filled object.
type canary struct {
	text, path string
	shown      bool
}

// fill sets every field of a value, at any depth, and returns the texts. Each text has a name of its own.
func fill(v reflect.Value, path string, shown bool, out *[]canary) {
	mark := func(shown bool) string {
		text := fmt.Sprintf("canary%05dx", len(*out))
		*out = append(*out, canary{text, path, shown})
		return text
	}
	switch t := v.Type(); {
	case slices.Contains(values, t):
		return
	case t == reflect.TypeFor[runtime.RawExtension]():
		v.FieldByName("Raw").SetBytes([]byte(`{"token": "` + mark(false) + `"}`))
	case t == reflect.TypeFor[[]byte]():
		v.SetBytes([]byte(mark(false)))
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		fill(v.Elem(), path, shown, out)
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
		fill(v.Index(0), path+"[]", shown, out)
	case t.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(t))
		value := reflect.New(t.Elem()).Elem()
		fill(value, path+"{}", shown, out)
		v.SetMapIndex(reflect.ValueOf("name").Convert(t.Key()), value)
		if t.Elem().Kind() == reflect.String && strings.HasSuffix(path, ".ObjectMeta.Annotations") {
			v.SetMapIndex(reflect.ValueOf(corev1.LastAppliedConfigAnnotation), reflect.ValueOf(mark(false)))
		}
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			how := decisions[t][t.Field(i).Name]
			fill(v.Field(i), path+"."+t.Field(i).Name, shown && (how == whole || how == annotated || how == credential), out)
		}
	case t.Kind() == reflect.String:
		v.SetString(mark(shown))
	}
}

// filled is an object of each kind with all of its fields.
func filled(kind Kind) (Object, []canary) {
	var texts []canary
	obj := kind.New()
	fill(reflect.ValueOf(obj).Elem(), kind.Kind(), true, &texts)
	return obj, texts
}

func TestShow_SecretFieldsAreNotPrinted(t *testing.T) {
	for _, kind := range Tables() {
		obj, texts := filled(kind)
		raw, err := Show(obj)
		if err != nil {
			t.Errorf("%s: %v", kind.Kind(), err)
			continue
		}
		for _, c := range texts {
			if is := strings.Contains(string(raw), c.text); is != c.shown {
				t.Errorf("%s: printed %t, decided %t", c.path, is, c.shown)
			}
		}
	}
}

// Whatever is decided, these fields are secret.
func TestShow_KeysAreNotPrinted(t *testing.T) {
	for _, path := range []string{"Authority.Key", "Membership.Key", "Secret.Data{}", "Secret.StringData{}"} {
		name, _, _ := strings.Cut(path, ".")
		i := slices.IndexFunc(Tables(), func(k Kind) bool { return k.Kind() == name })
		_, texts := filled(Tables()[i])
		if j := slices.IndexFunc(texts, func(c canary) bool { return c.path == path }); j < 0 || texts[j].shown {
			t.Errorf("%s is shown, or is gone", path)
		}
	}
}

func TestShow_HasTheFormOfJSON(t *testing.T) {
	for _, kind := range Tables() {
		obj, texts := filled(kind)
		raw, err := Show(obj)
		if err != nil {
			t.Fatal(err)
		}
		hides := slices.ContainsFunc(texts, func(c canary) bool {
			return !c.shown && !strings.Contains(c.path, "ManagedFields") && !strings.Contains(c.path, "Annotations")
		})
		if hides {
			continue
		}
		copied := obj.DeepCopyObject().(Object)
		copied.SetManagedFields(nil)
		delete(copied.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
		plain, err := json.Marshal(copied)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := json.Unmarshal(plain, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s: shown as\n%s\nwant\n%s", kind.Kind(), raw, plain)
		}
	}
}
