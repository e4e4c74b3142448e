package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
)

// typicalRoute returns a route as users write them: with two backends, a header match and a filter.
func typicalRoute(i int) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: route-%[1]d
spec:
  parentRefs:
  - name: gw
  hostnames:
  - host-%[1]d.example.com
  rules:
  - matches:
    - path: {type: PathPrefix, value: /v1/chat-%[1]d}
      headers:
      - {name: x-model, value: llama}
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier:
        set: [{name: x-tenant, value: t%[1]d}]
    backendRefs:
    - {group: inference.networking.k8s.io, kind: InferencePool, name: pool-%[1]d, weight: 90}
    - {name: fallback, port: 80, weight: 10}
`, i)
}

// BenchmarkLoad1000Routes measures the time until 1,000 routes are in the store. Each is in its own
// file, and the state file is written. It compares fastvalidation with apiextensions alone.
func BenchmarkLoad1000Routes(b *testing.B) {
	dir := b.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("route-%d.yaml", i)), []byte(typicalRoute(i)),
			0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("Fast", func(b *testing.B) { benchmarkLoad(b, dir, theCatalog()) })
	b.Run("Apiextensions", func(b *testing.B) { benchmarkLoad(b, dir, slowCatalog(b)) })
}

func BenchmarkLoad1000RoutesOfOneFile(b *testing.B) {
	dir := b.TempDir()
	var all strings.Builder
	for i := range 1000 {
		all.WriteString("---\n" + typicalRoute(i))
	}
	if err := os.WriteFile(filepath.Join(dir, "routes.yaml"), []byte(all.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	benchmarkLoad(b, dir, theCatalog())
}

func slowCatalog(b *testing.B) *catalog {
	b.Helper()
	c := &catalog{byName: theCatalog().byName, schema: map[*kind]func() (*schema, error){}}
	for k, compiled := range theCatalog().schema {
		c.schema[k] = func() (*schema, error) {
			s, err := compiled()
			if err != nil {
				return nil, err
			}
			without := *s
			without.fast = nil
			return &without, nil
		}
	}
	return c
}

func benchmarkLoad(b *testing.B, dir string, c *catalog) {
	b.ReportAllocs()
	for b.Loop() {
		s := store.New()
		r, err := New(Config{Paths: []string{dir}, Store: s, StateDir: filepath.Join(b.TempDir(), "state")})
		if err != nil {
			b.Fatal(err)
		}
		r.catalog = c
		if err := r.Load(context.Background()); err != nil {
			b.Fatal(err)
		}
		if n := len(store.HTTPRoutes.All(s.View())); n != 1000 {
			b.Fatalf("%d routes, want 1000", n)
		}
	}
}

func BenchmarkValidateRoute(b *testing.B) {
	for name, c := range map[string]*catalog{"Fast": theCatalog(), "Apiextensions": slowCatalog(b)} {
		b.Run(name, func(b *testing.B) {
			node, m := parseNode(typicalRoute(1))
			if m != nil {
				b.Fatal(m)
			}
			var p parser
			obj := p.value(node, "", 0).(map[string]any)
			k, _, _ := c.find("gateway.networking.k8s.io/v1", "HTTPRoute")
			s, err := c.schema[k]()
			if err != nil {
				b.Fatal(err)
			}
			s.complete(obj)
			b.ReportAllocs()
			for b.Loop() {
				unknown, errs, err := s.validate(b.Context(), obj)
				if err != nil || len(unknown)+len(errs) > 0 {
					b.Fatal(unknown, errs, err)
				}
			}
		})
	}
}
