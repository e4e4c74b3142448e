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
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// moments is a folder in which a route moves from Service to Service. A new Service is written
// before the route names it. An old Service is removed after the route no longer names it. So the
// route has a backend at every moment.
type moments struct {
	t    *testing.T
	dir  string
	n    int
	read *Reader

	*store.Store
	torn []string // revisions with content that the folder never had
}

func newMoments(t *testing.T) *moments {
	t.Helper()
	s := store.New()
	m := &moments{t: t, dir: t.TempDir(), Store: s}
	var err error
	m.read, err = New(Config{Paths: []string{m.dir}, Store: m, StateDir: t.TempDir(), Debounce: 100 * time.Microsecond,
		Poll: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m.move()
	return m
}

func (m *moments) Apply(ops ...store.Op) (store.Revision, error) {
	rev, err := m.Store.Apply(ops...)
	v := m.View()
	for _, r := range store.HTTPRoutes.All(v) {
		if name := string(r.Spec.Rules[0].BackendRefs[0].Name); !has(v, name) {
			m.torn = append(m.torn, fmt.Sprintf("revision %d: the route names %s, which does not exist", rev.N, name))
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

// file returns the name of the file of Service i. Some of these names sort before the route's file,
// and some after it.
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

// move writes the next Service into its own file, changes the route to it, and removes the old
// Service.
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

// once returns a nextChanges function. Its first call returns paths. Later calls return no paths
// and everything.
func once(everything bool, paths ...string) nextChanges {
	return func() ([]string, bool) {
		files := paths
		paths = nil
		return files, everything && files == nil
	}
}

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
		m.t.Errorf("the last version that was read is not the last one that was written, want svc-%d alone", m.n)
	}
}

func (m *moments) whole() {
	m.t.Helper()
	if len(m.torn) > 0 {
		m.t.Errorf("half of a change was applied, want all or nothing:\n%s", strings.Join(m.torn, "\n"))
	}
}

// The Reader must not apply half of a move, because requests would then get 500. On a busy machine,
// much time passes between the reads of the first and the last file.
func TestFile_ChangeDuringReadIsNotAppliedByHalves(t *testing.T) {
	for _, known := range []bool{false, true} { // false: no event, so all files are scanned
		for moves := 1; moves <= 3; moves++ {
			for at := range 2 {
				t.Run(fmt.Sprintf("known %t, %d moves before read %d", known, moves, at), func(t *testing.T) {
					m := newMoments(t)
					m.sync()
					m.move()
					var changed []string
					if known {
						m.sync()
						changed = []string{m.file(m.n), "route.yaml"}
					}
					reads := 0
					m.read.disk.read = func(path string) ([]byte, error) {
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

func TestFile_FolderWithConstantWritesIsRead(t *testing.T) {
	m := newMoments(t)
	m.read.disk.read = func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		m.save(filepath.Base(path), string(text)+"#")
		return text, err
	}
	m.sync()
}

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

func (m *moments) until(n int) {
	m.t.Helper()
	name := fmt.Sprintf("svc-%d", n)
	poll.Until(m.t, name+" is read", func() bool { return has(m.View(), name) })
}

func TestFile_SuccessiveChangesApplyInOrder(t *testing.T) {
	m := newMoments(t)
	stop := m.run()
	for range 300 {
		m.move()
	}
	m.until(m.n)
	stop()
	m.whole()
}

// The read begins with an event of only the route's file. Another file changes during the read, and
// must be read, too.
func TestFile_OtherFileChangedDuringReadIsRead(t *testing.T) {
	m := newMoments(t)
	m.edit()
	m.remove(m.file(1))
	var once atomic.Bool
	m.read.disk.read = func(path string) ([]byte, error) {
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

// The cost of a change must not depend on the number of other files, so a change must not read
// them. The test changes another file through a hard link, which sends no event. If the Reader read
// this file, the change would appear.
func TestFile_ChangeReadsNoOtherFile(t *testing.T) {
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
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "name: r", "name: renamed", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the change is read", func() bool { return m.View().Revision() != before })
	if len(store.Services.All(m.View())) != 1 {
		t.Error("another file was read")
	}
}
