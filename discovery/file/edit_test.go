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

// BenchmarkOneEditAmong1000Routes measures the time from the event of one edited route until the
// store has it, with 1,000 routes in one file or one file each.
func BenchmarkOneEditAmong1000Routes(b *testing.B) {
	text := func(i, weight int) string {
		return fmt.Sprintf(
			"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r%d}\nspec:\n  parentRefs: "+
				"[{name: gw}]\n  rules:\n  - backendRefs: [{name: svc, port: 80, weight: %d}]\n", i, weight)
	}
	for name, files := range map[string]int{"OneFile": 1, "ManyFiles": 1000} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			path := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%d.yaml", i%files)) }
			write := func(i int, text string) {
				if err := os.WriteFile(path(i), []byte(text), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			all := make([]string, 1000)
			for i := range all {
				all[i] = text(i, 1)
				write(i, all[i])
			}
			if files == 1 {
				write(0, strings.Join(all, "---\n"))
			}
			s := store.New()
			r, err := New(Config{Paths: []string{dir}, Store: s, StateDir: filepath.Join(b.TempDir(), "state")})
			if err != nil {
				b.Fatal(err)
			}
			if err := r.Load(context.Background()); err != nil {
				b.Fatal(err)
			}
			weight := 1
			for b.Loop() {
				weight++
				all[7] = text(7, weight)
				if files == 1 {
					write(0, strings.Join(all, "---\n"))
				} else {
					write(7, all[7])
				}
				if err := r.sync(context.Background(), once(false, path(7))); err != nil {
					b.Fatal(err)
				}
			}
			if got := store.HTTPRoutes.All(s.View()); len(got) != 1000 || s.View().Revision() < 2 {
				b.Fatalf("%d routes at revision %d, want 1000 at a later one than 1", len(got), s.View().Revision())
			}
		})
	}
}
