package file

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// example is a valid object after conversion, with defaults.
type example struct {
	name   string
	schema *schema
	obj    map[string]any
}

func examples(t *testing.T) (out []example) {
	t.Helper()
	c := theCatalog()
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range split(string(raw)) {
			node, m := parseNode(doc.text)
			if m != nil {
				t.Fatalf("%s: got %v, want YAML", f, m)
			}
			var p parser
			obj := p.value(node, "", 0).(map[string]any)
			o := &object{}
			k, convert, m := o.identify(c, obj)
			if k == nil || m != nil {
				t.Fatalf("%s: got %v, want an object of a known kind", f, m)
			}
			if convert != nil {
				convert(&draft{obj: obj})
			}
			s, err := c.schema[k]()
			if err != nil {
				t.Fatal(err)
			}
			if !k.status {
				delete(obj, "status")
			}
			s.complete(obj)
			out = append(out, example{fmt.Sprintf("%s %s", f, o.ref), s, obj})
		}
	}
	return out
}

// fastvalidation must support the examples of every kind. Otherwise, the first start with thousands
// of objects of a kind takes seconds.
func TestCEL_ExamplesOfEveryKindTakeTheFastPath(t *testing.T) {
	for _, e := range examples(t) {
		delete(e.obj, "status") // conditions have times, which fastvalidation does not support
		if !e.schema.fast.Valid(e.obj) {
			t.Errorf("%s does not take the fast path", e.name)
		}
	}
}

// fastvalidation must accept no invalid object. Such an object would have no finding, and could
// break its readers. The test damages examples at random, thousands of times. fastvalidation's own
// test covers each CEL rule.
func TestCEL_FastPathAcceptsNothingInvalid(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	all := examples(t)
	fast, valid := 0, 0
	for range 4000 {
		e := all[rnd.IntN(len(all))]
		obj := runtime.DeepCopyJSONValue(e.obj).(map[string]any)
		var done string
		for range 1 + rnd.IntN(2) {
			done += damage(rnd, obj) + "; "
		}
		e.schema.complete(obj)
		accepted := e.schema.fast.Valid(obj)
		unknown, errs := libraryErrors(t, e.schema, obj)
		invalid := len(unknown)+len(errs) > 0
		if accepted && invalid {
			t.Fatalf("%s after %s takes the fast path; apiextensions reports %v %v, want none",
				e.name, done, unknown, errs)
		}
		if accepted {
			fast++
		}
		if !invalid {
			valid++
		}
	}
	if fast*2 < valid {
		t.Errorf("%d of %d valid objects took the fast path, want at least half", fast, valid)
	}
}

func libraryErrors(t *testing.T, s *schema, obj map[string]any) ([]string, field.ErrorList) {
	t.Helper()
	without := *s
	without.fast = nil
	unknown, errs, err := without.validate(context.Background(), obj)
	if err != nil {
		t.Fatal(err)
	}
	return unknown, errs
}

func damage(rnd *rand.Rand, obj map[string]any) string {
	values := []any{nil, "", "x", "Exact", "HTTPS", "/a/../b", "*.example.com", "1.2.3.4", int64(-1), int64(0),
		int64(1), int64(301), int64(70000), int64(1 << 40), 1.5, true, []any{}, map[string]any{}, []any{"x"},
		map[string]any{"name": "x"}}
	var in any = obj
	path := ""
	for {
		switch v := in.(type) {
		case map[string]any:
			keys := sortedKeys(v)
			if len(keys) == 0 || rnd.IntN(12) == 0 {
				v["extra"] = "x"
				return path + " gets a field"
			}
			key := keys[rnd.IntN(len(keys))]
			path = join(path, key)
			if leaf(v[key]) || rnd.IntN(4) == 0 {
				if rnd.IntN(3) == 0 {
					delete(v, key)
					return path + " removed"
				}
				v[key] = values[rnd.IntN(len(values))]
				return fmt.Sprintf("%s = %v", path, v[key])
			}
			in = v[key]
		case []any:
			if len(v) == 0 {
				return path + " is empty"
			}
			i := rnd.IntN(len(v))
			path = at(path, i)
			switch j := rnd.IntN(len(v)); {
			case rnd.IntN(4) == 0:
				v[j] = runtime.DeepCopyJSONValue(v[i])
				return fmt.Sprintf("%s copied to %d", path, j)
			case leaf(v[i]):
				v[i] = values[rnd.IntN(len(values))]
				return fmt.Sprintf("%s = %v", path, v[i])
			}
			in = v[i]
		default:
			return path
		}
	}
}

func leaf(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}
