package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func gatewayNamed(name string) string {
	return fmt.Sprintf(
		"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: %s}\nspec: {gatewayClassName: "+
			"penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}\n", name)
}

// reading is a Reader of a folder, with the findings that it reported last.
type reading struct {
	*Reader
	store *store.Store
	found atomic.Value // the last findings, as a string
}

func newReading(t *testing.T, dir string) *reading {
	t.Helper()
	r := &reading{store: store.New()}
	r.found.Store("")
	var err error
	r.Reader, err = New(Config{Paths: []string{dir}, Store: r.store, Report: func(reports []report.Report) {
		var text strings.Builder
		for _, rep := range reports {
			for _, f := range rep.Findings {
				fmt.Fprintln(&text, f)
			}
		}
		r.found.Store(text.String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *reading) load(t *testing.T) (gateways, found string) {
	t.Helper()
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range store.Gateways.All(r.store.View()) {
		names = append(names, g.Name)
	}
	return strings.Join(names, " "), r.found.Load().(string)
}

func TestFolder_WhatNeverEndsIsNotRead(t *testing.T) {
	dir := folderOf(t, map[string]string{"a.yaml": gatewayNamed("a"), "z.yaml": gatewayNamed("z")})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"fifo.yaml cannot be read: it is not an ordinary file"}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "zero.yaml")); err != nil {
		t.Fatal(err)
	}
	want = append(want, "zero.yaml cannot be read: it is not an ordinary file")
	if f, err := os.Open("/proc/kmsg"); err == nil { // for root; its mode is an ordinary file's
		_ = f.Close()
		if err := os.Symlink("/proc/kmsg", filepath.Join(dir, "kmsg.yaml")); err != nil {
			t.Fatal(err)
		}
		want = append(want, "kmsg.yaml cannot be read: ")
	}
	gateways, found := newReading(t, dir).load(t)
	if gateways != "a z" {
		t.Errorf("the other files have the Gateways %q, want a and z", gateways)
	}
	for _, text := range want {
		if !strings.Contains(strings.ReplaceAll(found, ": cannot be read", " cannot be read"), text) {
			t.Errorf("want a finding with %q, got:\n%s", text, found)
		}
	}
}

func TestFolder_CyclesOfLinksAreReadOnce(t *testing.T) {
	dir := folderOf(t,
		map[string]string{"a.yaml": gatewayNamed("a"), "sub/b.yaml": gatewayNamed("b"),
			"sub/deep/c.yaml": gatewayNamed("c")})
	for link, to := range map[string]string{"l1": ".", "l2": ".", "sub/up1": "..", "sub/up2": "..",
		"sub/deep/up": "../..", "again": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	gateways, found := newReading(t, dir).load(t)
	if gateways != "a b c" {
		t.Errorf("Gateways %q, want a, b and c", gateways)
	}
	if n := strings.Count(found, "it leads to a folder that is read already"); n != 6 ||
		strings.Count(found, "\n") != n {
		t.Errorf("%d links are named, want 6 and nothing else:\n%s", n, found)
	}
}

func TestFolder_TooManyFilesLeaveTheOthersInUse(t *testing.T) {
	files := map[string]string{"a.yaml": gatewayNamed("a"), "many/kept.yaml": gatewayNamed("kept"),
		"z/z.yaml": gatewayNamed("z")}
	dir := folderOf(t, files)
	r := newReading(t, dir)
	r.disk.most = 20
	if gateways, found := r.load(t); gateways != "a kept z" || found != "" {
		t.Fatalf("got Gateways %q, findings %s; want a, kept and z, and none", gateways, found)
	}
	for i := range 30 {
		if err := os.WriteFile(filepath.Join(dir, "many", fmt.Sprint("f", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "z/z.yaml"), []byte(gatewayNamed("edited")), 0o600); err != nil {
		t.Fatal(err)
	}
	if gateways, found := r.load(t); gateways != "a edited kept" ||
		!strings.Contains(found, "many cannot be read: it has too many files") {
		t.Errorf("Gateways %q, want a, edited and kept; reported:\n%s", gateways, found)
	}
}

// A file on an unresponsive file system delays a read by one timeout, and only once. It delays
// neither other files nor the end of the process.
func TestFolder_HungFileDelaysNoOther(t *testing.T) {
	dir := folderOf(t,
		map[string]string{"a.yaml": gatewayNamed("a"), "hung.yaml": gatewayNamed("hung"), "z.yaml": gatewayNamed("z")})
	synctest.Test(t, func(t *testing.T) {
		r := newReading(t, dir)
		r.disk.ctx = t.Context()
		answers, reads := make(chan struct{}), atomic.Int32{}
		r.disk.read = func(path string) ([]byte, error) {
			if filepath.Base(path) == "hung.yaml" {
				reads.Add(1)
				<-answers
			}
			return readRegular(path)
		}
		began := time.Now()
		gateways, found := r.load(t)
		if gateways != "a z" || !strings.Contains(found, "its file system does not answer") {
			t.Errorf("got Gateways %q, want a and z, and that the file system does not answer; reported:\n%s",
				gateways, found)
		}
		if took := time.Since(began); took != filesystem.Timeout {
			t.Errorf("it took %v, want %v once", took, filesystem.Timeout)
		}
		if gateways, _ = r.load(t); gateways != "a z" || time.Since(began) != filesystem.Timeout || reads.Load() != 1 {
			t.Errorf("the next read has %q after %v and %d reads of the hung file; want no further wait", gateways,
				time.Since(began), reads.Load())
		}
		close(answers)
		synctest.Wait()
		if gateways, found = r.load(t); gateways != "a hung z" || found != "" {
			t.Errorf("once it answers: got Gateways %q, want a, hung and z, and no report:\n%s", gateways, found)
		}
	})
}

func TestFolder_HungFileDelaysNoEnd(t *testing.T) {
	dir := folderOf(t, map[string]string{"hung.yaml": gatewayNamed("hung")})
	synctest.Test(t, func(t *testing.T) {
		r := newReading(t, dir)
		answers := make(chan struct{})
		defer close(answers)
		r.disk.read = func(string) ([]byte, error) { <-answers; return nil, nil }
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Load(ctx) }()
		synctest.Wait()
		began := time.Now()
		end()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			t.Errorf("it ends with %v after %v, want %v and 0", err, time.Since(began), context.Canceled)
		}
	})
}

func TestFolder_StuckReadIsNoticed(t *testing.T) {
	dir := folderOf(t, map[string]string{"a.yaml": gatewayNamed("a")})
	synctest.Test(t, func(t *testing.T) {
		r := newReading(t, dir)
		goOn := make(chan struct{})
		r.cfg.Report = func([]report.Report) { <-goOn }
		done := make(chan error, 1)
		go func() { done <- r.Load(t.Context()) }()
		synctest.Wait()
		if r.Stuck() {
			t.Error("a read that has just begun is stuck")
		}
		time.Sleep(stuckAfter + time.Second)
		if !r.Stuck() {
			t.Error("a read without progress is not stuck")
		}
		close(goOn)
		if err := <-done; err != nil || r.Stuck() {
			t.Errorf("got %v, stuck after its end: %v; want no error, false", err, r.Stuck())
		}
	})
}

// A first start fails if penstock has no permission to read a file, because the file may have an
// AccessPolicy. Later starts continue with the objects that were read before.
func TestDisk_FirstStartNeedsPermissionToReadAll(t *testing.T) {
	dir, state := folderOf(t, map[string]string{"a.yaml": gatewayNamed("a"), "b.yaml": gatewayNamed("b")}), t.TempDir()
	start := func(denied string) error {
		r, err := New(Config{Paths: []string{dir}, Store: store.New(), StateDir: state})
		if err != nil {
			t.Fatal(err)
		}
		r.disk.read = func(path string) ([]byte, error) {
			if filepath.Base(path) == denied {
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
			}
			return readRegular(path)
		}
		return r.Load(t.Context())
	}
	want := filepath.Join(dir, "b.yaml") + " cannot be read: permission denied; it may hold an AccessPolicy"
	if err := start("b.yaml"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	for _, denied := range []string{"", "b.yaml"} {
		if err := start(denied); err != nil {
			t.Errorf("denied %q: got %v, want a start", denied, err)
		}
	}
}
