package file

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
)

// moments is a folder in which a route moves from Service to Service: each new one is written before the route names it, and
// goes only when the route has left it. So there is no moment at which the route has no backend.
type moments struct {
	t    *testing.T
	dir  string
	n    int
	read *Reader

	*store.Store
	torn []string // what was applied and never was
}

func newMoments(t *testing.T) *moments {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	m := &moments{t: t, dir: t.TempDir(), Store: s}
	m.read, err = New(Config{Paths: []string{m.dir}, Store: m, StateDir: t.TempDir(), Settle: 100 * time.Microsecond, Poll: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m.move()
	return m
}

// Apply implements Store.
func (m *moments) Apply(ops ...store.Op) (store.Revision, error) {
	rev, err := m.Store.Apply(ops...)
	v := m.View()
	for _, r := range store.HTTPRoutes.All(v) {
		if name := string(r.Spec.Rules[0].BackendRefs[0].Name); !has(v, name) {
			m.torn = append(m.torn, fmt.Sprintf("revision %d: the route leads to %s, which is not there", rev.N, name))
		}
	}
	return rev, err
}

func has(v *store.View, service string) bool {
	_, ok := store.Services.Get(v, "default/"+service)
	return ok
}

func (m *moments) save(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		m.t.Fatal(err)
	}
}

// file names where Service i stands: some before the route's file, some after it, as a reader that sorts them meets them.
func (m *moments) file(i int) string { return fmt.Sprintf("%c-%d.yaml", "az"[i%2], i) }

func service(n int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: svc-%d}\nspec:\n  ports: [{port: 80}]\n", n)
}

func (m *moments) route() {
	m.t.Helper()
	m.save("route.yaml", fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: gw}]
  rules:
  - backendRefs: [{name: svc-%d, port: 80}]
`, m.n))
}

// move leads the route to the next Service, which has a file of its own.
func (m *moments) move() {
	m.t.Helper()
	old := m.file(m.n)
	m.n++
	m.save(m.file(m.n), service(m.n))
	m.route()
	if m.n > 1 {
		m.remove(old)
	}
}

// edit does the same with files that are there already.
func (m *moments) edit() {
	m.t.Helper()
	m.n++
	m.save("services.yaml", service(m.n-1)+"---\n"+service(m.n))
	m.route()
	m.save("services.yaml", service(m.n))
}

func (m *moments) remove(name string) {
	m.t.Helper()
	if err := os.Remove(filepath.Join(m.dir, name)); err != nil {
		m.t.Fatal(err)
	}
}

// once tells of files that changed. Later, or without any, it tells of nothing, or that anything may have.
func once(anything bool, paths ...string) func() (changed []string, everything bool) {
	return func() (changed []string, everything bool) {
		changed, paths = paths, nil
		return changed, anything && changed == nil
	}
}

// sync has the reader read, and checks what came of it.
func (m *moments) sync(changed ...string) {
	m.t.Helper()
	var paths []string
	for _, name := range changed {
		paths = append(paths, filepath.Join(m.dir, name))
	}
	if err := m.read.sync(context.Background(), once(true, paths...)); err != nil {
		m.t.Fatal(err)
	}
	m.whole()
	if v := m.View(); !has(v, fmt.Sprintf("svc-%d", m.n)) || len(store.Services.All(v)) != 1 {
		m.t.Errorf("what was written last is not what was read last")
	}
}

func (m *moments) whole() {
	m.t.Helper()
	if len(m.torn) > 0 {
		m.t.Errorf("half of a change was taken:\n%s", strings.Join(m.torn, "\n"))
	}
}

// On a busy machine much time passes between the first file that is read and the last. Whoever moves a route, and deletes
// what it has left, would have requests answered 500 for as long as half of that is in force.
func TestAChangeIsNotTakenByHalfWhileItIsWritten(t *testing.T) {
	for _, told := range []bool{false, true} { // that some files have changed; else everything is looked at
		for moves := 1; moves <= 3; moves++ {
			for at := range 2 {
				t.Run(fmt.Sprintf("told %t, %d moves before read %d", told, moves, at), func(t *testing.T) {
					m := newMoments(t)
					m.sync()
					m.move()
					var changed []string
					if told {
						m.sync()
						changed = []string{m.file(m.n), "route.yaml"}
					}
					reads := 0
					m.read.readFile = func(path string) ([]byte, error) {
						for i := 0; i < moves && reads == at; i++ {
							m.move()
						}
						reads++
						return os.ReadFile(path)
					}
					m.sync(changed...)
				})
			}
		}
	}
}

// A folder that somebody writes to all the time is taken nevertheless.
func TestAFolderThatIsNeverAtRestIsRead(t *testing.T) {
	m := newMoments(t)
	m.read.readFile = func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		m.save(filepath.Base(path), string(text)+"#")
		return text, err
	}
	m.sync()
}

// run has the reader follow changes until the function returned is called.
func (m *moments) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.read.Run(ctx) }()
	<-m.read.Synced()
	return func() {
		cancel()
		if err := <-done; err != nil {
			m.t.Error(err)
		}
	}
}

// until waits for a Service.
func (m *moments) until(n int) {
	m.t.Helper()
	name := fmt.Sprintf("svc-%d", n)
	for end := time.Now().Add(20 * time.Second); !has(m.View(), name); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("%s is never read", name)
		}
	}
}

func TestChangesThatComeOneAfterTheOtherAreTakenInTheirOrder(t *testing.T) {
	m := newMoments(t)
	stop := m.run()
	for range 300 {
		m.move()
	}
	m.until(m.n)
	stop()
	m.whole()
}

// Only the route's file is known to have changed when it is read; the other one changes just then, and before it.
func TestWhatChangesWhileOneFileIsReadIsReadToo(t *testing.T) {
	m := newMoments(t)
	m.edit()
	m.remove(m.file(1))
	var once atomic.Bool
	m.read.readFile = func(path string) ([]byte, error) {
		if filepath.Base(path) == "route.yaml" && once.CompareAndSwap(true, false) {
			m.edit()
		}
		return os.ReadFile(path)
	}
	stop := m.run()
	once.Store(true)
	m.save("route.yaml", "# nothing\n")
	m.until(3)
	stop()
	m.whole()
}

// What a change costs must not depend on how many other files there are. That they are left alone shows by one which changed
// under another name, of which nobody is told.
func TestAChangeHasNoOtherFileLookedAt(t *testing.T) {
	m := newMoments(t)
	name := filepath.Join(m.dir, m.file(m.n))
	secret := filepath.Join(t.TempDir(), "same")
	if err := os.Link(name, secret); err != nil {
		t.Fatal(err)
	}
	defer m.run()()
	if err := os.WriteFile(secret, []byte("# nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.dir, "route.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before := m.View().Revision()
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "name: r", "name: renamed", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); m.View().Revision() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the change is never read")
		}
	}
	if len(store.Services.All(m.View())) != 1 {
		t.Error("another file was looked at")
	}
}
