package file_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// folder is a configuration folder with a Reader.
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

func (f *folder) restart() {
	f.t.Helper()
	var err error
	f.store = store.New()
	f.read, err = file.New(file.Config{Paths: []string{f.dir}, Store: f.store, StateDir: f.state, Poll: time.Hour,
		Report: f.setReported, Former: f.former, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) former(policy string) []v1alpha1.FormerTarget {
	p, ok := store.AccessPolicies.Get(f.store.View(), policy)
	if !ok {
		return nil
	}
	return p.Spec.Former
}

func (f *folder) setReported(r []report.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reported = r
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

func TestFile_FolderFillsStore(t *testing.T) {
	f := newFolder(t)
	f.write("a/routes.yaml", route("chat", "a.example.com")+"---\n"+route("other", "b.example.com"))
	f.load()
	f.expectFindings()
	if f.hostOf("chat") != "a.example.com" || f.hostOf("other") != "b.example.com" {
		t.Fatal("a route is missing")
	}
}

func TestFile_FindingNamesLineAndFix(t *testing.T) {
	f := newFolder(t)
	f.write("routes.yaml", strings.Replace(route("chat", "a.example.com"), "port: 80", "port: 80\n      weight: -1", 1))
	f.load()
	f.expectFindings(
		"error: routes.yaml:14: HTTPRoute default/chat spec.rules[0].backendRefs[0].weight: must be at least 0, is " +
			"-1; write an integer from 0 to 1000000")
}

// testdata/kinds has an object of every kind that Penstock reads.
func TestFile_EveryKindIsRead(t *testing.T) {
	f := newFolder(t)
	examples, err := filepath.Glob("testdata/kinds/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, e := range examples {
		raw, err := os.ReadFile(e)
		if err != nil {
			t.Fatal(err)
		}
		f.write(filepath.Base(e), string(raw))
	}
	f.load()
	f.expectFindings()
	kinds := map[string]int{}
	for _, c := range store.Everything(f.store.View()) {
		kinds[c.Table]++
	}
	for _, table := range store.Tables() {
		if n := kinds[table.Kind()]; n == 0 &&
			!slices.Contains([]store.Kind{store.Hosts, store.Invalids, store.LearnedEndpoints, store.Offers,
				store.Failbacks, store.Dialects, store.Authorities, store.Memberships, store.Exports,
				store.AddressPolicies, store.ProcessorDefaults, store.Occupants}, table) {
			t.Errorf("no %s was read", table.Kind())
		}
	}
}

func TestGateway_ClassMayBeOmitted(t *testing.T) {
	f := newFolder(t)
	f.write("g.yaml",
		"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec:\n  listeners: [{name: "+
			"http, port: 80, protocol: HTTP}]\n")
	f.load()
	f.expectFindings()
	if g, ok := store.Gateways.Get(f.store.View(), "default/g"); !ok || g.Spec.GatewayClassName != "penstock" {
		t.Errorf("gateway: got %+v, want class penstock", g)
	}
}

func TestNamespace_EmptyMeansDefault(t *testing.T) {
	f := newFolder(t)
	f.write("r.yaml", strings.Replace(route("a", "a.example.com"), "  name: a\n", "  name: a\n  namespace: \"\"\n", 1))
	f.load()
	f.expectFindings()
	f.expectHosts(map[string]string{"a": "a.example.com"})
	if f.hostOf("a") == "" {
		t.Error("the route is not in namespace default")
	}
}

func TestSecret_StringDataIsRead(t *testing.T) {
	f := newFolder(t)
	f.write("s.yaml",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: kubernetes.io/tls\nstringData: {tls.crt: hello}\n")
	f.load()
	f.expectFindings(
		"error: s.yaml:1: Secret default/s data: has no tls.key; a Secret of type kubernetes.io/tls needs tls.crt "+
			"and tls.key",
		"error: s.yaml:5: Secret default/s stringData[tls.crt]: is not PEM; write the PEM file's base64 in data, or "+
			"its text in stringData")
}

// creationTimestamp is kept, because the older of two conflicting objects takes precedence.
func TestFile_CreationTimestampStays(t *testing.T) {
	f := newFolder(t)
	for name, line := range map[string]string{"quoted": `"2020-01-01T00:00:00Z"`, "plain": "2020-01-01T00:00:00Z",
		"precise": `"2020-01-01T01:00:00.5+01:00"`, "none": "null"} {
		f.write(name+".yaml",
			strings.Replace(route(name, name+".example.com"), "  name: "+name+"\n",
				"  name: "+name+"\n  creationTimestamp: "+line+"\n", 1))
	}
	f.write("wrong.yaml",
		strings.Replace(route("wrong", "wrong.example.com"), "  name: wrong\n",
			"  name: wrong\n  creationTimestamp: yesterday\n", 1))
	f.load()
	for name, want := range map[string]string{"quoted": "2020-01-01T00:00:00Z", "plain": "2020-01-01T00:00:00Z",
		"precise": "2020-01-01T00:00:00Z", "none": "0001-01-01T00:00:00Z"} {
		r, ok := store.HTTPRoutes.Get(f.store.View(), "default/"+name)
		if !ok {
			t.Errorf("%s is not read", name)
		} else if r.CreationTimestamp.UTC().Truncate(time.Second).Format(time.RFC3339) != want {
			t.Errorf("%s: %v, want %s", name, r.CreationTimestamp, want)
		}
	}
	if _, ok := store.HTTPRoutes.Get(f.store.View(), "default/wrong"); ok {
		t.Error("an invalid time passes")
	}
	f.expectFindings(
		"error: wrong.yaml:5: HTTPRoute default/wrong metadata.creationTimestamp: is not a time: \"yesterday\"; " +
			"write it in the form 2026-01-31T12:00:00Z")
}

func TestFile_FieldsOfAPIServerAreDropped(t *testing.T) {
	f := newFolder(t)
	f.write("r.yaml", strings.Replace(route("a", "a.example.com"), "  name: a\n", `  name: a
  uid: 0f4d9ad5-9f5d-4d5e-8d0a-2f1d5b1f8a11
  resourceVersion: "12"
  generation: 3
  creationTimestamp: "2026-01-01T00:00:00Z"
  managedFields: [{manager: kubectl, operation: Apply, fieldsV1: {"f:spec": {}}}]
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
`, 1)+"status: {parents: [{nonsense: true}]}\n")
	f.load()
	f.expectFindings()
	r, ok := store.HTTPRoutes.Get(f.store.View(), "default/a")
	if !ok || r.UID != "" || r.ResourceVersion != "" || len(r.ManagedFields) != 0 || len(r.Annotations) != 0 ||
		len(r.Status.Parents) != 0 {
		t.Errorf("kept: got %+v, want no server's metadata, no annotation and no status", r)
	}
}
