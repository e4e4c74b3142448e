package file_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// folder is a configuration folder, and a reader of it.
type folder struct {
	t     *testing.T
	dir   string
	state string
	store *store.Store
	read  *file.Reader

	mu       sync.Mutex
	reported []report.Report
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir(), state: t.TempDir()}
	f.restart()
	return f
}

// restart begins anew with what is on disk.
func (f *folder) restart() {
	f.t.Helper()
	var err error
	if f.store, err = store.New(); err != nil {
		f.t.Fatal(err)
	}
	f.read, err = file.New(file.Config{Paths: []string{f.dir}, Store: f.store, StateDir: f.state, Report: func(r []report.Report) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.reported = r
	}})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) write(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) load() {
	f.t.Helper()
	if err := f.read.Load(context.Background()); err != nil {
		f.t.Fatal(err)
	}
}

// findings are what was reported last, paths without the folder.
func (f *folder) findings() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.reported {
		for _, x := range r.Findings {
			out = append(out, string(x.Severity)+": "+strings.ReplaceAll(x.String(), f.dir+"/", ""))
		}
	}
	return out
}

func (f *folder) expectFindings(want ...string) {
	f.t.Helper()
	got := f.findings()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		f.t.Errorf("findings:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func route(name, host string) string {
	return "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: " + name +
		"\nspec:\n  parentRefs:\n  - name: gw\n  hostnames:\n  - " + host +
		"\n  rules:\n  - backendRefs:\n    - name: svc\n      port: 80\n"
}

func (f *folder) hostOf(name string) string {
	r, ok := store.HTTPRoutes.Get(f.store.View(), "default/"+name)
	if !ok {
		return ""
	}
	return string(r.Spec.Hostnames[0])
}

func TestAFolderBecomesObjectsInTheStore(t *testing.T) {
	f := newFolder(t)
	f.write("a/routes.yaml", route("chat", "a.example.com")+"---\n"+route("other", "b.example.com"))
	f.load()
	f.expectFindings()
	if f.hostOf("chat") != "a.example.com" || f.hostOf("other") != "b.example.com" {
		t.Fatal("a route is missing")
	}
}

func TestAMistakeNamesItsPlaceAndWhatToWriteInstead(t *testing.T) {
	f := newFolder(t)
	f.write("routes.yaml", strings.Replace(route("chat", "a.example.com"), "port: 80", "port: 80\n      weight: -1", 1))
	f.load()
	f.expectFindings("error: routes.yaml:14: HTTPRoute default/chat spec.rules[0].backendRefs[0].weight: must be at least 0, is -1; write a whole number from 0 to 1000000")
}
