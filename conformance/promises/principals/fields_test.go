package principals

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// class is the kind of a field. It determines the values to test.
type class string

const (
	number    class = "number"
	text      class = "text" // any string without a meaning for other principals
	name      class = "name" // name of an object, cluster, port or model that another principal may also use
	namespace class = "namespace"
	label     class = "label"
	host      class = "host"
	address   class = "address" // an IP address, or a range of addresses
	choice    class = "choice"  // a value from a fixed list
	boolean   class = "boolean"
	list      class = "list"
	mapping   class = "mapping"
	duration  class = "duration"
	quantity  class = "quantity"
)

// field is a field that a principal writes. Its path has the form "KIND.json.path[].to.it", with []
// after a list or a map.
type field struct {
	path  string
	class class
	typ   reflect.Type
}

// unread names fields that Penstock does not read, or that the principal cannot write. prefix is
// the beginning of their paths; * stands for every kind.
type unread struct{ prefix, reason string }

func (u unread) covers(path string) bool {
	prefix := u.prefix
	if rest, ok := strings.CutPrefix(prefix, "*"); ok {
		kind, _, _ := strings.Cut(path, ".")
		prefix = kind + rest
	}
	return path == prefix || strings.HasPrefix(path, prefix+".") || strings.HasPrefix(path, prefix+"[")
}

type walker struct {
	// classes has the classes of fields whose type is not sufficient for classOf. Keys are ends of
	// paths, and the longest matching end applies.
	classes map[string]class
	unread  []unread
	limits  func(path string) *apiextensionsv1.JSONSchemaProps // may be nil
	fields  []field
	matched map[string]bool // prefixes of unread that matched a field
}

// walk appends the fields of a type below a path. It does not descend again into a type that
// contains itself.
func (w *walker) walk(path string, t reflect.Type, within ...reflect.Type) {
	if w.skips(path) {
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	c := w.classOf(path, t)
	if c == text && w.limits != nil && len(w.limits(path).Enum) > 0 {
		c = choice
	}
	if c != "" {
		w.fields = append(w.fields, field{path: path, class: c, typ: t})
	}
	switch {
	case c == list && t.Elem().Kind() != reflect.Uint8, c == mapping && t.Kind() == reflect.Map:
		w.walk(path+"[]", t.Elem(), within...)
	case c == "" && t.Kind() == reflect.Struct && !slices.Contains(within, t):
		w.members(path, t, append(slices.Clone(within), t))
	}
}

func (w *walker) skips(path string) bool {
	for _, u := range w.unread {
		if u.covers(path) {
			if w.matched == nil {
				w.matched = map[string]bool{}
			}
			w.matched[u.prefix] = true
			return true
		}
	}
	return false
}

func (w *walker) members(path string, t reflect.Type, within []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case key == "-" || !f.IsExported():
		case key == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			w.members(path, f.Type, within)
		case key == "":
			w.walk(path+"."+f.Name, f.Type, within...)
		default:
			w.walk(path+"."+key, f.Type, within...)
		}
	}
}

// done returns the fields. An entry of unread that matches no field fails the test.
func (w *walker) done(t testing.TB) []field {
	t.Helper()
	for _, u := range w.unread {
		if !w.matched[u.prefix] {
			t.Errorf("the list of unread fields has %s, and no field is named so: remove the line", u.prefix)
		}
	}
	return w.fields
}

// classOf returns a field's class, or "" for a struct with fields.
func (w *walker) classOf(path string, t reflect.Type) class {
	longest := ""
	for end := range w.classes {
		if (path == end || strings.HasSuffix(path, "."+end)) && len(end) > len(longest) {
			longest = end
		}
	}
	if longest != "" {
		return w.classes[longest]
	}
	switch t.String() {
	case "resource.Quantity", "intstr.IntOrString":
		return quantity
	case "v1.Duration", "time.Duration":
		return duration
	case "v1.Time", "v1.MicroTime", "time.Time":
		return text
	case "runtime.RawExtension", "json.RawMessage":
		return mapping
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolean
	case reflect.String:
		return text
	case reflect.Slice, reflect.Array:
		if t == reflect.TypeFor[json.RawMessage]() || t.Elem().Kind() == reflect.Uint8 {
			return text
		}
		return list
	case reflect.Map:
		return mapping
	case reflect.Struct, reflect.Interface:
		return ""
	}
	return number
}
