package principals

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests"
)

// kinds returns the store's tables whose kind is in written. others has the reason for each other
// table. A table in neither fails the test: its author must be decided.
func kinds(t testing.TB, written []string, others map[string]string) []store.Kind {
	t.Helper()
	var out []store.Kind
	for _, table := range store.Tables() {
		_, other := others[table.Kind()]
		switch write := slices.Contains(written, table.Kind()); {
		case write:
			out = append(out, table)
		case !other:
			t.Errorf("the store has %s: does a principal write it?", table.Kind())
		}
	}
	if len(out) != len(written) {
		t.Errorf("the store's tables: got %d, want all of %s", len(out), written)
	}
	return out
}

func fieldsOf(t testing.TB, tables []store.Kind, w walker) []field {
	w.limits = limits(t)
	for _, table := range tables {
		w.walk(table.Kind(), reflect.TypeOf(table.New()).Elem())
	}
	return w.done(t)
}

// limits returns a function for the schema of a field in its kind's CRD, with the limits of values.
// The schema is empty for a kind without a CRD.
func limits(t testing.TB) func(path string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	schemas := theSchemas(t)
	return func(path string) *apiextensionsv1.JSONSchemaProps {
		kind, steps := split(path)
		at, none := schemas[kind], &apiextensionsv1.JSONSchemaProps{}
		for _, s := range steps {
			switch {
			case at == nil:
				return none
			case s == "[]" && at.Items != nil:
				at = at.Items.Schema
			case s == "[]" && at.AdditionalProperties != nil:
				at = at.AdditionalProperties.Schema
			default:
				next, ok := at.Properties[s]
				if !ok {
					return none
				}
				at = &next
			}
		}
		if at == nil {
			return none
		}
		return at
	}
}

var decoded struct {
	once    sync.Once
	schemas map[string]*apiextensionsv1.JSONSchemaProps
	err     error
}

func theSchemas(t testing.TB) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	decoded.once.Do(func() {
		decoded.schemas = map[string]*apiextensionsv1.JSONSchemaProps{}
		files, err := manifests.CRDs()
		for _, f := range files {
			crd, err := manifests.CRD(f.Group, f.Plural)
			if err != nil {
				decoded.err = err
				return
			}
			decoded.schemas[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		}
		decoded.err = err
	})
	if decoded.err != nil {
		t.Fatal(decoded.err)
	}
	return decoded.schemas
}

// sample is a file of testdata with a tenant's objects. $NS stands for the namespace, and names
// such as $HTTP stand for ports of the rig's listeners.
type sample struct {
	file    string
	objects []map[string]any
}

func readSamples(t testing.TB, folder string) []sample {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples in testdata/%s: %v", folder, err)
	}
	var out []sample
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := sample{file: path}
		for _, doc := range strings.Split(string(raw), "\n---\n") {
			var o map[string]any
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			s.objects = append(s.objects, o)
		}
		out = append(out, s)
	}
	return out
}

// in returns a copy of the objects in a namespace. The objects' host names contain the namespace's
// name.
func (s sample) in(namespace string, ports map[string]int) []map[string]any {
	text, _ := json.Marshal(s.objects) // cannot fail: it was YAML
	text = bytes.ReplaceAll(text, []byte("$NS"), []byte(namespace))
	for listener, port := range ports {
		text = bytes.ReplaceAll(text, []byte(strconv.Quote("$"+strings.ToUpper(listener))), []byte(strconv.Itoa(port)))
	}
	var out []map[string]any
	_ = json.Unmarshal(text, &out)
	for _, o := range out {
		metadata, _ := o["metadata"].(map[string]any)
		metadata["namespace"] = namespace
	}
	return out
}

// split returns a path's kind and its steps, such as "spec", "rules", "[]", "backendRefs".
func split(path string) (kind string, steps []string) {
	all := strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".")
	return all[0], all[1:]
}

// reach returns the number of a path's steps that exist in v.
func reach(v any, steps []string) int {
	if len(steps) == 0 {
		return 0
	}
	best := 0
	for _, child := range children(v, steps[0]) {
		best = max(best, 1+reach(child, steps[1:]))
	}
	return best
}

func children(v any, step string) (out []any) {
	switch v := v.(type) {
	case map[string]any:
		if child, ok := v[step]; ok {
			return []any{child}
		}
		if step == "[]" {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				out = append(out, v[key])
			}
		}
	case []any:
		if step == "[]" {
			return v
		}
	}
	return out
}

// set returns v with a value at a path. In a list or a map, it descends into the element that
// contains the longest part of the path.
func set(v any, steps []string, value any) any {
	if len(steps) == 0 {
		return value
	}
	switch v := v.(type) {
	case []any:
		if len(v) == 0 {
			return []any{set(nil, steps[1:], value)}
		}
		best := 0
		for i := range v {
			if reach(v[i], steps[1:]) > reach(v[best], steps[1:]) {
				best = i
			}
		}
		v[best] = set(v[best], steps[1:], value)
		return v
	case map[string]any:
		key := steps[0]
		if key == "[]" {
			key = "mine"
			if len(v) > 0 {
				keys := slices.Sorted(maps.Keys(v))
				key = slices.MaxFunc(keys, func(a, b string) int {
					return reach(v[a], steps[1:]) - reach(v[b], steps[1:])
				})
			}
		}
		v[key] = set(v[key], steps[1:], value)
		return v
	}
	return map[string]any{steps[0]: set(nil, steps[1:], value)}
}

// literal returns a field's value in its JSON form. now is the value in the sample.
func literal(f field, v value, l *apiextensionsv1.JSONSchemaProps, now any) any {
	switch f.class {
	case number:
		return numeral(f, v, l)
	case duration:
		return map[value]string{negative: "-1s", zero: "0s", maximum: "99999h", overflow: "99999999999999999999h"}[v]
	case quantity:
		return map[value]any{negative: -1, zero: 0, maximum: 65535, overflow: json.Number("4294967296")}[v]
	case boolean:
		return v == maximum
	case choice:
		return map[value]string{zero: "", overflow: "Unheard"}[v]
	case list:
		return repeated(v, l, now)
	case mapping:
		return entries(v, l, now)
	}
	return word(f.class, v, l)
}

func numeral(f field, v value, l *apiextensionsv1.JSONSchemaProps) any {
	k := f.typ.Kind()
	if k == reflect.Float32 || k == reflect.Float64 {
		return map[value]any{negative: -1, zero: 0, maximum: math.MaxFloat64, overflow: json.Number("1e999")}[v]
	}
	most := uint64(1)<<(f.typ.Bits()-1) - 1
	if reflect.Uint <= k && k <= reflect.Uint32 {
		most = 2*most + 1
	}
	if l.Maximum != nil {
		most = uint64(*l.Maximum)
	}
	switch v {
	case negative:
		return -1
	case zero:
		return 0
	case maximum:
		return json.Number(strconv.FormatUint(most, 10))
	}
	return json.Number(strconv.FormatUint(most+1, 10))
}

// longest is the length of a string, and the number of items of a list, if the schema has no limit.
const longest = 4096

func word(c class, v value, l *apiextensionsv1.JSONSchemaProps) string {
	n := longest
	switch {
	case l.MaxLength != nil:
		n = int(*l.MaxLength)
	case c == name || c == host:
		n = 253
	case c == namespace || c == label:
		n = 63
	}
	switch v {
	case zero:
		return ""
	case maximum, overflow:
		if v == overflow {
			n++
		}
		if c == host { // a label has at most 63 characters
			return strings.Repeat(strings.Repeat("a", 49)+".", n/50) + strings.Repeat("a", max(1, n%50))
		}
		return strings.Repeat("a", n)
	case anothersName:
		switch c {
		case host:
			return victimHost
		case address:
			return "127.0.0.1"
		}
	}
	return "victim"
}

func repeated(v value, l *apiextensionsv1.JSONSchemaProps, now any) any {
	list, _ := now.([]any)
	if v == zero || len(list) == 0 {
		return []any{}
	}
	n := 1024
	if l.MaxItems != nil {
		n = int(*l.MaxItems)
	}
	if v == overflow {
		n++
	}
	out := slices.Clone(list)[:min(n, len(list))]
	for len(out) < n {
		out = append(out, another(list[0], len(out)))
	}
	return out
}

// another returns a copy of an item that differs in its unique parts.
func another(item any, i int) any {
	switch item := item.(type) {
	case string:
		if a, bits, isRange := strings.Cut(item, "/"); strings.Count(a, ".") == 3 {
			if ip, err := netip.ParseAddr(a); err == nil {
				b := ip.As4()
				b[1], b[2] = b[1]+byte(i>>8), byte(i) // another /24: ranges must not overlap
				if a = netip.AddrFrom4(b).String(); isRange {
					a += "/" + bits
				}
				return a
			}
		}
		return fmt.Sprintf("%s%d", item, i)
	case float64:
		return item + float64(i)
	case map[string]any:
		out := maps.Clone(item)
		keys := []string{"name", "number", "address", "ip", "key"}
		if _, condition := out["status"]; condition {
			keys = []string{"type"}
		}
		for _, key := range keys {
			if former, ok := out[key]; ok {
				out[key] = another(former, i)
				break
			}
		}
		return out
	}
	return item
}

func entries(v value, l *apiextensionsv1.JSONSchemaProps, now any) any {
	out := map[string]any{}
	object, _ := now.(map[string]any)
	if v == zero || len(object) == 0 {
		return out
	}
	n := 256
	if l.MaxProperties != nil {
		n = int(*l.MaxProperties)
	}
	if v == overflow {
		n++
	}
	maps.Copy(out, object)
	first := slices.Sorted(maps.Keys(object))[0]
	for i := 0; len(out) < n; i++ {
		out[fmt.Sprintf("%s-%d", first, i)] = object[first]
	}
	return out
}
