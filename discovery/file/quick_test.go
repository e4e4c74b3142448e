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

// example is one good object, converted and completed.
type example struct {
	name   string
	schema *schema
	obj    map[string]any
}

// examples are the objects in testdata/kinds and testdata/seeds.
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
				t.Fatalf("%s: %v", f, m)
			}
			var p parser
			obj := p.value(node, "", 0).(map[string]any)
			o := &object{}
			k, convert, m := o.identify(c, obj)
			if k == nil || m != nil {
				t.Fatalf("%s: %v", f, m)
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

// Every kind's example is taken the quick way: else a cold start of thousands of such objects would take seconds.
func TestGoodObjectsTakeTheQuickWay(t *testing.T) {
	for _, e := range examples(t) {
		for key, value := range e.obj {
			if key == "status" {
				continue // conditions have times, which the quick way leaves to the libraries
			}
			if key == "apiVersion" || key == "kind" {
				continue
			}
			if q := e.schema.quick.properties[key]; !q.right(value) {
				t.Errorf("%s: %s is not taken the quick way", e.name, key)
			}
		}
	}
}

// The quick way must never take an object that the API server's libraries would refuse: it would have no finding, and
// break something behind. Examples are damaged at random, thousands of times.
func TestNothingWrongIsTakenForRight(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	all := examples(t)
	quickYes, slowYes := 0, 0
	for range 4000 {
		e := all[rnd.IntN(len(all))]
		obj := runtime.DeepCopyJSONValue(e.obj).(map[string]any)
		var done string
		for range 1 + rnd.IntN(2) {
			done += damage(rnd, obj) + "; "
		}
		e.schema.complete(obj)
		quick := e.schema.quick.right(obj)
		unknown, errs := ask(t, e.schema, obj)
		wrong := len(unknown)+len(errs) > 0
		if quick && wrong {
			t.Fatalf("%s after %s is taken for right; the libraries say %v %v", e.name, done, unknown, errs)
		}
		if quick {
			quickYes++
		}
		if !wrong {
			slowYes++
		}
	}
	if quickYes*2 < slowYes {
		t.Errorf("of %d right objects %d were taken the quick way", slowYes, quickYes)
	}
}

// ask has the libraries' word alone.
func ask(t *testing.T, s *schema, obj map[string]any) ([]string, field.ErrorList) {
	t.Helper()
	without := *s
	without.quick = nil
	unknown, errs, err := without.validate(context.Background(), obj)
	if err != nil {
		t.Fatal(err)
	}
	return unknown, errs
}

// damage changes one place of an object and says what it did.
func damage(rnd *rand.Rand, obj map[string]any) string {
	values := []any{nil, "", "x", "Exact", "HTTPS", "/a/../b", "*.example.com", "1.2.3.4", int64(-1), int64(0), int64(1), int64(301), int64(70000), int64(1 << 40), 1.5, true, []any{}, map[string]any{}, []any{"x"}, map[string]any{"name": "x"}}
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
