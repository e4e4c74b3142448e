package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

const stays = "its last good version stays in use"

func (f *folder) expectHosts(want map[string]string) {
	f.t.Helper()
	got := map[string]string{}
	for _, r := range store.HTTPRoutes.All(f.store.View()) {
		got[r.Name] = string(r.Spec.Hostnames[0])
	}
	for name, host := range want {
		if got[name] != host {
			f.t.Errorf("route %s has host %q, want %q", name, got[name], host)
		}
		delete(got, name)
	}
	for name := range got {
		f.t.Errorf("route %s is still there", name)
	}
}

func wrongRoute(name string) string {
	return strings.Replace(route(name, "new.example.com"), "port: 80", "port: eighty", 1)
}

func TestLastGood_InvalidObjectKeepsItAndDelaysNoOther(t *testing.T) {
	f := newFolder(t)
	f.write("r.yaml", route("a", "a.example.com")+"---\n"+route("b", "b.example.com"))
	f.load()
	f.write("r.yaml", wrongRoute("a")+"---\n"+route("b", "b2.example.com")+"---\n"+route("c", "c.example.com"))
	f.load()
	f.expectHosts(map[string]string{"a": "a.example.com", "b": "b2.example.com", "c": "c.example.com"})
	if all := strings.Join(f.findings(), "\n"); !strings.Contains(all, stays) {
		t.Errorf("want a finding that the last good version is in use, got:\n%s", all)
	}
	// The last good forms survive a restart, and a second restart.
	for range 2 {
		f.restart()
		f.load()
		f.expectHosts(map[string]string{"a": "a.example.com", "b": "b2.example.com", "c": "c.example.com"})
	}
	f.write("r.yaml", route("a", "a3.example.com"))
	f.load()
	f.expectHosts(map[string]string{"a": "a3.example.com"})
	f.expectFindings()
}

func TestLastGood_BrokenYAMLRemovesNothing(t *testing.T) {
	f := newFolder(t)
	f.write("r.yaml", route("a", "a.example.com")+"---\n"+route("b", "b.example.com"))
	f.write("other.yaml", route("c", "c.example.com"))
	f.load()
	f.write("r.yaml", "apiVersion: [\n---\n"+route("b", "b2.example.com"))
	f.load()
	want := map[string]string{"a": "a.example.com", "b": "b2.example.com", "c": "c.example.com"}
	f.expectHosts(want)
	f.restart()
	f.load()
	f.expectHosts(want)
	f.remove("r.yaml")
	f.load()
	f.expectHosts(map[string]string{"c": "c.example.com"})
}

func TestLastGood_MistypedKindOrNameRemovesNothing(t *testing.T) {
	for _, c := range [][2]string{
		{"kind: HTTPRoute", "kind: HTTPRuote"}, {"kind: HTTPRoute\n", ""}, {"kind: HTTPRoute", "kind:"},
		{"name: a", "name: A_1"}, {"name: a", "name:"}, {"name: a", "name: a\n  namespace: Default"},
		{"metadata:", "metadta:"},
		{"gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v2"},
		{"gateway.networking.k8s.io/v1", "gateway.networking.k8.io/v1"},
	} {
		f := newFolder(t)
		f.write("r.yaml", route("a", "a.example.com"))
		f.load()
		f.write("r.yaml", strings.Replace(route("a", "a.example.com"), c[0], c[1], 1))
		f.load()
		f.expectHosts(map[string]string{"a": "a.example.com"})
		if len(f.findings()) == 0 {
			t.Errorf("%q for %q: no finding, want one", c[1], c[0])
		}
	}
}

func TestLastGood_DeletedWhileStoppedIsGone(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", route("a", "a.example.com")+"---\n"+route("b", "b.example.com"))
	f.write("c.yaml", route("c", "c.example.com"))
	f.load()
	f.restart()
	f.write("a.yaml", route("a", "a.example.com"))
	f.remove("c.yaml")
	f.load()
	f.expectHosts(map[string]string{"a": "a.example.com"})
	// A removed object does not return when the file becomes invalid later.
	f.restart()
	f.write("a.yaml", "[")
	f.load()
	f.expectHosts(map[string]string{"a": "a.example.com"})
}

func TestFile_ObjectMovesBetweenFilesInOneRevision(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", route("x", "x.example.com"))
	f.load()
	before := f.store.View().Revision()
	f.write("b.yaml", route("x", "x.example.com"))
	f.remove("a.yaml")
	f.load()
	f.expectHosts(map[string]string{"x": "x.example.com"})
	if now := f.store.View().Revision(); now != before {
		t.Errorf("the move made revision %d of %d, want no revision", now, before)
	}
	f.write("b.yaml", wrongRoute("x"))
	f.load()
	f.restart()
	f.load()
	f.expectHosts(map[string]string{"x": "x.example.com"})
}

func TestFile_DuplicateObjectFirstByPathIsUsed(t *testing.T) {
	f := newFolder(t)
	f.write("b.yaml", route("x", "second.example.com"))
	f.write("a.yaml", "# first\n---\n"+route("x", "first.example.com"))
	f.load()
	f.expectHosts(map[string]string{"x": "first.example.com"})
	f.expectFindings(
		"error: b.yaml:1: HTTPRoute default/x is defined twice; the definition at a.yaml:3 is in use; remove one, or " +
			"give it another name")
	f.remove("a.yaml")
	f.load()
	f.expectHosts(map[string]string{"x": "second.example.com"})
	f.expectFindings()
}

func TestFile_IdenticalDuplicateIsReportedAfterEveryEdit(t *testing.T) {
	f := newFolder(t)
	twice := route("x", "x.example.com") + "---\n" + route("x", "x.example.com")
	f.write("a.yaml", twice)
	f.load()
	f.expectFindings("info: a.yaml:15: HTTPRoute default/x is defined twice, identically at a.yaml:1")
	f.write("a.yaml", route("y", "y.example.com")+"---\n"+twice)
	f.load()
	f.expectFindings("info: a.yaml:29: HTTPRoute default/x is defined twice, identically at a.yaml:15")
}

func TestLastGood_UnwritableStateDoesNotStopChanges(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", route("x", "1.example.com"))
	f.load()
	if err := os.RemoveAll(f.state); err != nil {
		t.Fatal(err)
	}
	f.write("a.yaml", route("x", "2.example.com"))
	f.load()
	f.expectHosts(map[string]string{"x": "2.example.com"})
	if err := os.Mkdir(f.state, 0o700); err != nil {
		t.Fatal(err)
	}
	f.write("b.yaml", route("y", "1.example.com"))
	f.load()
	f.write("a.yaml", "[")
	f.restart()
	f.load()
	f.expectHosts(map[string]string{"x": "2.example.com", "y": "1.example.com"})
}

// While the disk is full, the state file cannot be written. Once the disk has room, all last good
// forms are written, without another change of a file.
func TestLastGood_FullDiskLosesNothingOnceItHasRoom(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", route("x", "1.example.com"))
	f.load()
	full := f.state + "-full"
	if err := errors.Join(os.Rename(f.state, full), os.WriteFile(f.state, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"2.example.com", "3.example.com"} {
		f.write("a.yaml", route("x", host))
		f.load()
		f.expectHosts(map[string]string{"x": host})
	}
	if err := errors.Join(os.Remove(f.state), os.Rename(full, f.state)); err != nil {
		t.Fatal(err)
	}
	f.load()
	f.write("a.yaml", "[")
	f.restart()
	f.load()
	f.expectHosts(map[string]string{"x": "3.example.com"})
}

func TestLastGood_TruncatedStateLosesItsTornLineAlone(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", route("x", "1.example.com"))
	f.write("b.yaml", route("y", "1.example.com"))
	f.load()
	f.write("b.yaml", route("y", "2.example.com"))
	f.load()
	path := filepath.Join(f.state, "last-good.jsonl")
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-10)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.write("a.yaml", "[")
	f.write("b.yaml", "[")
	for range 2 {
		f.restart()
		f.load()
		f.expectHosts(map[string]string{"x": "1.example.com", "y": "1.example.com"})
	}
}

func TestLastGood_UnreadableStateIsNotReplaced(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", route("x", "1.example.com"))
	f.load()
	path := filepath.Join(f.state, "last-good.jsonl")
	// A folder in place of the file makes reading fail.
	if err := errors.Join(os.Rename(path, path+".aside"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	f.restart()
	f.write("a.yaml", route("x", "2.example.com"))
	f.load()
	f.expectHosts(map[string]string{"x": "2.example.com"})
	if err := errors.Join(os.Remove(path), os.Rename(path+".aside", path)); err != nil {
		t.Fatal(err)
	}
	f.write("a.yaml", "[")
	f.restart()
	f.load()
	f.expectHosts(map[string]string{"x": "1.example.com"})
}

func TestLastGood_SecretsAreReadableByOwnerOnly(t *testing.T) {
	f := newFolder(t)
	f.write("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: hunter2}\n")
	f.load()
	s, ok := store.Secrets.Get(f.store.View(), "default/s")
	if !ok || string(s.Data["key"]) != "hunter2" {
		t.Fatalf("secret: got %+v, want key hunter2", s)
	}
	files := 0
	err := filepath.WalkDir(f.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		info, err := d.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", path, info.Mode())
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files of state, %v; want some", files, err)
	}
}

func TestLastGood_DamagedStateDoesNotPreventStart(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", route("a", "a.example.com"))
	f.load()
	err := filepath.WalkDir(f.state, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.WriteFile(path, []byte(`{"path": 7, "obj`), 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.restart()
	f.load()
	f.expectHosts(map[string]string{"a": "a.example.com"})
}

func TestFile_LocateReturnsLineOfField(t *testing.T) {
	f := newFolder(t)
	text := route("a", "a.example.com") +
		"---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: inference.networking.x-k8s.io/v1alpha2\n  kind: " +
		"InferencePool\n  metadata: {name: p}\n  spec:\n    selector: {app: x}\n    targetPortNumber: 80\n    " +
		"extensionRef: {name: epp}\n"
	f.write("r.yaml", text)
	f.load()
	ref := report.Ref{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "default", Name: "a"}
	pool := report.Ref{Group: "inference.networking.k8s.io", Kind: "InferencePool", Namespace: "default", Name: "p"}
	for _, c := range []struct {
		owner report.Ref
		field string
		want  string
	}{
		{ref, "", "r.yaml:1"},
		{ref, "spec.rules[0].backendRefs[0].port", "r.yaml:13"},
		{ref, "spec.rules[0].backendRefs[0].namespace", "r.yaml:12"},
		{pool, "", "r.yaml:18"},
		{pool, "spec.targetPorts[0].number", "r.yaml:23"},
		{pool, "spec.endpointPickerRef.name", "r.yaml:24"},
		{report.Ref{Kind: "Service", Namespace: "default", Name: "nowhere"}, "", ""},
	} {
		for range 2 { // the second result comes from a cache
			if got := strings.TrimPrefix(f.read.Locate(c.owner, c.field), f.dir+"/"); got != c.want {
				t.Errorf("%s %s is at %q, want %q", c.owner, c.field, got, c.want)
			}
		}
	}
	f.write("r.yaml", "# a comment\n"+text)
	f.load()
	if got, want := f.read.Locate(pool, "spec.targetPorts[0].number"), f.dir+"/r.yaml:24"; got != want {
		t.Errorf("after a change the field is at %s, want %s", got, want)
	}
}

func TestInvalid_ObjectThatWasNeverValidIsNotedUntilItIs(t *testing.T) {
	f := newFolder(t)
	broken := object("inference.networking.k8s.io/v1", "InferencePool",
		"spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: 80000}]}\n")
	f.write("x.yaml", broken)
	f.load()
	key := "default/" + store.InvalidName("InferencePool", "x")
	if _, ok := store.Invalids.Get(f.store.View(), key); !ok {
		t.Error("references call the object missing")
	}
	f.write("x.yaml", strings.Replace(broken, "80000", "8000", 1))
	f.load()
	if _, ok := store.Invalids.Get(f.store.View(), key); ok {
		t.Error("the object stays invalid")
	}
}
