package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/store"
)

// typicalRoute is a route as people write them: two backends, a header match, a filter.
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

// The time until 1,000 routes are in the store, from one file of each, with and without last good forms to write.
func BenchmarkLoad1000Routes(b *testing.B) {
	dir := b.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("route-%d.yaml", i)), []byte(typicalRoute(i)), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	benchmarkLoad(b, dir)
}

// The same, all in one file.
func BenchmarkLoad1000RoutesOfOneFile(b *testing.B) {
	dir := b.TempDir()
	var all strings.Builder
	for i := range 1000 {
		all.WriteString("---\n" + typicalRoute(i))
	}
	if err := os.WriteFile(filepath.Join(dir, "routes.yaml"), []byte(all.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	benchmarkLoad(b, dir)
}

func benchmarkLoad(b *testing.B, dir string) {
	for b.Loop() {
		s, err := store.New()
		if err != nil {
			b.Fatal(err)
		}
		r, err := file.New(file.Config{Paths: []string{dir}, Store: s, StateDir: filepath.Join(b.TempDir(), "state")})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Load(context.Background()); err != nil {
			b.Fatal(err)
		}
		if n := len(store.HTTPRoutes.All(s.View())); n != 1000 {
			b.Fatalf("%d routes", n)
		}
	}
}
