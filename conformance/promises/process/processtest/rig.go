package processtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// Rig is a test with a folder that penstock reads.
type Rig struct {
	testing.TB
	Files string // the folder; "" if the rig writes no files
}

var ports process.Ports

// Port returns a free port of 127.0.0.1.
func (r *Rig) Port() int {
	r.Helper()
	return Port(r)
}

// Port is Rig.Port for a test without a Rig.
func Port(t testing.TB) int {
	t.Helper()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Write saves a file of the folder in one step, as editors do: it writes another file and renames
// it.
func (r *Rig) Write(name, text string) {
	r.Helper()
	path := filepath.Join(r.Files, name)
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		r.Fatal(err)
	}
}

// Eventually polls check until it succeeds. After process.Limit, the test fails with check's last
// error.
func (r *Rig) Eventually(what string, check func() error) {
	r.Helper()
	poll.NoError(r, what, process.Limit, check)
}

// ShortDir makes a test's folder for Unix sockets. The path of t.TempDir may be too long for a
// socket.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
