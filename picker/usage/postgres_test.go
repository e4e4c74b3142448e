package usage

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
)

// postgres starts Debian's PostgreSQL in a temporary folder, and returns its URL and functions to
// start and stop it. Without the package the test is skipped.
func postgres(t *testing.T) (url string, start, stop func()) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed: apt install postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("/tmp", "usagepg") // the path of its socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 { // PostgreSQL does not run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("PostgreSQL does not run as root, and there is no user postgres")
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.SysProcAttr, cmd.Dir = attr, dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	data := filepath.Join(dir, "data")
	run("initdb", "-D", data, "-U", "penstock", "-A", "trust", "-N")
	running := false
	start = func() {
		run("pg_ctl", "-D", data, "-w", "-l", filepath.Join(dir, "log"), "-o",
			"-c listen_addresses='' -k "+dir, "start")
		running = true
	}
	stop = func() {
		run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
		running = false
	}
	start()
	t.Cleanup(func() {
		if running {
			stop()
		}
	})
	return "postgres://penstock@/postgres?host=" + dir, start, stop
}

// Several processes write to one PostgreSQL. While it is down, counts wait in the state folder.
func TestUsage_PostgreSQLOfSeveralProcesses(t *testing.T) {
	url, start, stop := postgres(t)
	c := &clock{noon}
	open := func(name string) *Keeper {
		return New(Config{Folder: t.TempDir(), Process: name, Now: c.read, Log: slog.New(slog.DiscardHandler),
			URL: func() (string, error) { return url, nil }})
	}
	var keepers []*Keeper
	for i := range 3 {
		keepers = append(keepers, open(fmt.Sprint("pod-", i)))
	}
	var all sync.WaitGroup
	for _, k := range keepers {
		all.Go(func() {
			for range 10 {
				for i := range 50 {
					k.Log([]accesslog.Used{answered(fmt.Sprint("ns/", i%7), 2, 1)})
				}
				// Fails while another process creates the tables.
				for k.applyAll(t.Context()) != nil {
				}
			}
		})
	}
	all.Wait()
	for _, k := range keepers {
		if n := total(t, k, time.Hour); n.Requests != 1500 || n.Input != 3000 {
			t.Error(n)
		}
	}
	k := keepers[0]
	stop()
	k.Log([]accesslog.Used{answered("ns/alice", 2, 1)})
	a := k.Read(t.Context(), Query{By: []string{"owner"}, Since: time.Hour})
	if a.Problem == "" || !a.Shared {
		t.Errorf("got %+v, want a shared answer with a problem", a)
	}
	start()
	if n := total(t, k, time.Hour); n.Requests != 1501 {
		t.Error(n)
	}
	for _, k := range keepers {
		k.end()
	}
}
