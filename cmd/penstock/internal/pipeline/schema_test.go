package pipeline_test

import (
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests"
)

// node is a part of a kind's schema. A leaf has neither fields nor items nor values.
type node struct {
	fields map[string]*node
	items  *node  // schema of a list's items
	values *node  // schema of a map's values
	scalar string // of a leaf: string, integer, number or boolean; "" for anything else
	enum   []any
}

// child returns the part below a node for a key or an index, with its name in a pattern; nil below
// a leaf.
func (n *node) child(key string) (below *node, name string) {
	switch {
	case n.items != nil:
		return n.items, "[]"
	case n.values != nil:
		return n.values, ".{}"
	}
	return n.fields[key], "." + key
}

func (n *node) leaves(at string) iter.Seq2[string, *node] {
	return func(yield func(string, *node) bool) { n.each(at, yield) }
}

// each calls yield with each leaf until yield returns false. It reports whether yield always
// returned true.
func (n *node) each(at string, yield func(string, *node) bool) bool {
	switch {
	case n.items != nil:
		return n.items.each(at+"[]", yield)
	case n.values != nil:
		return n.values.each(at+".{}", yield)
	case len(n.fields) == 0:
		return yield(at, n)
	}
	for _, name := range slices.Sorted(maps.Keys(n.fields)) {
		if !n.fields[name].each(at+"."+name, yield) {
			return false
		}
	}
	return true
}

func schemas(t *testing.T) map[string]*node {
	t.Helper()
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*node{}
	for _, f := range files {
		crd, err := manifests.CRD(f.Group, f.Plural)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			if v.Storage {
				out[crd.Spec.Names.Kind] = ofProps(v.Schema.OpenAPIV3Schema)
			}
		}
	}
	delete(out, "PoolExport") // only Penstock writes PoolExports
	for _, table := range store.Tables() {
		if kind := table.Kind(); out[kind] == nil && !slices.Contains(derivedKinds, kind) {
			out[kind] = ofType(reflect.TypeOf(table.New()).Elem())
		}
	}
	return out
}

var derivedKinds = []string{
	"Host", "Invalid", "Learned", "Offer", "Failback", "Dialect", "Authority", "Membership", "Export", "AddressPolicy",
	"ProcessorDefault", "Occupant",
}

func ofProps(p *apiextensionsv1.JSONSchemaProps) *node {
	n := &node{scalar: p.Type}
	for _, e := range p.Enum {
		var v any
		if json.Unmarshal(e.Raw, &v) == nil {
			n.enum = append(n.enum, v)
		}
	}
	switch {
	case len(p.Properties) > 0:
		n.fields = map[string]*node{}
		for name := range p.Properties {
			child := p.Properties[name]
			n.fields[name] = ofProps(&child)
		}
	case p.Items != nil && p.Items.Schema != nil:
		n.items = ofProps(p.Items.Schema)
	case p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
		n.values = ofProps(p.AdditionalProperties.Schema)
	}
	return n
}

var plainTypes = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](),
	reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[resource.Quantity](),
	reflect.TypeFor[runtime.RawExtension](),
	reflect.TypeFor[metav1.FieldsV1](),
}

func ofType(t reflect.Type) *node {
	if slices.Contains(plainTypes, t) {
		return &node{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return ofType(t.Elem())
	case reflect.Map:
		return &node{values: ofType(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return &node{items: ofType(t.Elem())}
		}
	case reflect.String:
		return &node{scalar: "string"}
	case reflect.Bool:
		return &node{scalar: "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return &node{scalar: "integer"}
	case reflect.Struct:
		n := &node{fields: map[string]*node{}}
		n.add(t)
		return n
	}
	return &node{}
}

func (n *node) add(t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			n.add(f.Type)
		case name != "":
			n.fields[name] = ofType(f.Type)
		}
	}
}
