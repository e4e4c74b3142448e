package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func (f *folder) follow() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.read.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
	select {
	case <-f.read.Synced():
	case <-time.After(30 * time.Second):
		f.t.Fatal("the first read does not end")
	}
}

func (f *folder) eventually(name, host string) {
	f.t.Helper()
	poll.Until(f.t, fmt.Sprintf("route %s has host %q", name, host), func() bool { return f.hostOf(name) == host })
}

func TestFile_SavedFileIsLive(t *testing.T) {
	f := newFolder(t)
	f.write("r.yaml", route("a", "1.example.com"))
	f.follow()
	f.eventually("a", "1.example.com")
	f.write("r.yaml", route("a", "2.example.com"))
	f.eventually("a", "2.example.com")

	// Editors save a file by writing a temporary file in the same folder and renaming it.
	f.write(".r.yaml.swp", "{")
	f.write("r.yaml~", route("a", "old.example.com"))
	f.write("tmp-1", route("a", "3.example.com"))
	if err := os.Rename(filepath.Join(f.dir, "tmp-1"), filepath.Join(f.dir, "r.yaml")); err != nil {
		t.Fatal(err)
	}
	f.eventually("a", "3.example.com")
	f.write("r.yaml", route("a", "4.example.com"))
	f.eventually("a", "4.example.com")

	f.write("deep/er/b.yaml", route("b", "b.example.com"))
	f.eventually("b", "b.example.com")
	f.write("deep/er/b.yaml", route("b", "b2.example.com"))
	f.eventually("b", "b2.example.com")
	if err := os.RemoveAll(filepath.Join(f.dir, "deep")); err != nil {
		t.Fatal(err)
	}
	f.eventually("b", "")
	f.write("deep/er/b.yaml", route("b", "b3.example.com"))
	f.eventually("b", "b3.example.com")
	f.remove("r.yaml")
	f.eventually("a", "")
	f.expectFindings()
}

// A mounted ConfigMap consists of links to a folder that the kubelet swaps as a whole. The Reader
// must read the new content.
func TestFile_MountedConfigMapIsFollowed(t *testing.T) {
	f := newFolder(t)
	link := func(old, name string) {
		t.Helper()
		if err := os.Symlink(old, filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version := func(n int) string {
		dir := fmt.Sprintf("..v%d", n)
		for _, name := range []string{"a", "b"} {
			f.write(dir+"/"+name+".yaml", route(name, fmt.Sprintf("%s%d.example.com", name, n)))
		}
		return dir
	}
	link(version(1), "..data")
	link("..data/a.yaml", "a.yaml")
	link("..data/b.yaml", "b.yaml")
	f.follow()
	f.eventually("a", "a1.example.com")
	for n := 2; n < 5; n++ {
		before := f.store.View().Revision()
		link(version(n), "..data_tmp")
		if err := os.Rename(filepath.Join(f.dir, "..data_tmp"), filepath.Join(f.dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(f.dir, fmt.Sprintf("..v%d", n-1))); err != nil {
			t.Fatal(err)
		}
		f.eventually("a", fmt.Sprintf("a%d.example.com", n))
		if f.hostOf("b") != fmt.Sprintf("b%d.example.com", n) {
			t.Errorf("half of the swap was applied: b has %s, want %s",
				f.hostOf("b"), fmt.Sprintf("b%d.example.com", n))
		}
		if now := f.store.View().Revision(); now != before+1 {
			t.Errorf("the swap made %d revisions, want 1", now-before)
		}
	}
	f.expectFindings()
}

func TestFile_LinkToFileElsewhereIsFollowed(t *testing.T) {
	f := newFolder(t)
	elsewhere := filepath.Join(t.TempDir(), "shared.yaml")
	save := func(host string) {
		t.Helper()
		if err := os.WriteFile(elsewhere, []byte(route("a", host)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	save("1.example.com")
	if err := os.Symlink(elsewhere, filepath.Join(f.dir, "r.yaml")); err != nil {
		t.Fatal(err)
	}
	f.follow()
	f.eventually("a", "1.example.com")
	save("2.example.com")
	f.eventually("a", "2.example.com")
}

func TestFile_SeveralPathsAndSingleFiles(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.conf"), filepath.Join(dir, "two")
	f := &folder{t: t, dir: two, state: t.TempDir()}
	f.write("b.yaml", route("b", "b.example.com"))
	save := func(host string) {
		t.Helper()
		if err := os.WriteFile(one+".new", []byte(route("a", host)), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(one+".new", one); err != nil {
			t.Fatal(err)
		}
	}
	save("1.example.com")
	f.restart()
	var err error
	if f.read, err = file.New(file.Config{Paths: []string{one, two}, Store: f.store, Poll: time.Hour}); err != nil {
		t.Fatal(err)
	}
	f.follow()
	f.eventually("a", "1.example.com")
	f.eventually("b", "b.example.com")
	save("2.example.com")
	f.eventually("a", "2.example.com")
}

func TestFile_CurrentFolder(t *testing.T) {
	f := newFolder(t)
	t.Chdir(f.dir)
	f.write("r.yaml", wrongRoute("a"))
	var err error
	f.read, err = file.New(file.Config{Paths: []string{"."}, Store: f.store, StateDir: f.state, Poll: time.Hour,
		Report: f.setReported})
	if err != nil {
		t.Fatal(err)
	}
	f.follow()
	f.expectFindings(
		"error: r.yaml:13: HTTPRoute default/a spec.rules[0].backendRefs[0].port: must be an integer, is a string; " +
			"write an integer from 1 to 65535")
	f.write("r.yaml", route("a", "1.example.com"))
	f.eventually("a", "1.example.com")
	f.write("sub/b.yaml", route("b", "1.example.com"))
	f.eventually("b", "1.example.com")
}

// A shell with a redirection truncates a file before the command fills it. This must not remove the
// file's objects.
func TestFile_TruncatedDuringWriteRemovesNothing(t *testing.T) {
	f := newFolder(t)
	f.write("r.yaml", route("a", "1.example.com"))
	f.write("sign.yaml", route("sign", "1.example.com"))
	f.follow()
	f.write("r.yaml", "")
	f.write("sign.yaml", route("sign", "2.example.com"))
	f.eventually("sign", "2.example.com")
	if f.hostOf("a") != "1.example.com" {
		t.Error("the route went while its file was being written")
	}
	f.write("r.yaml", route("a", "2.example.com"))
	f.eventually("a", "2.example.com")
	f.write("r.yaml", "# nothing any more\n")
	f.eventually("a", "")
	f.write("sign.yaml", "") // the file stays empty
	f.eventually("sign", "")
}

func TestFile_MovedFolderRemovesNothing(t *testing.T) {
	f := newFolder(t)
	f.dir = filepath.Join(f.dir, "config")
	f.write("r.yaml", route("a", "1.example.com"))
	f.restart()
	var err error
	if f.read, err = file.New(file.Config{Paths: []string{f.dir}, Store: f.store, Poll: time.Hour}); err != nil {
		t.Fatal(err)
	}
	f.follow()
	if err := os.Rename(f.dir, f.dir+".old"); err != nil {
		t.Fatal(err)
	}
	f.write("r.yaml", route("a", "2.example.com"))
	f.eventually("a", "2.example.com")
	f.write("r.yaml", route("a", "3.example.com"))
	f.eventually("a", "3.example.com")
}

// Deployment tools switch a link from one release to the next. The Reader must read the new
// release.
func TestFile_LinkToFolderIsFollowed(t *testing.T) {
	f := newFolder(t)
	current := filepath.Join(f.dir, "current")
	turn := func(to string) {
		t.Helper()
		if err := os.Symlink(to, current+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(current+".new", current); err != nil {
			t.Fatal(err)
		}
	}
	f.write("v1/r.yaml", route("a", "1.example.com"))
	f.write("v2/r.yaml", route("a", "2.example.com"))
	turn("v1")
	var err error
	if f.read, err = file.New(file.Config{Paths: []string{current}, Store: f.store, Poll: time.Hour}); err != nil {
		t.Fatal(err)
	}
	f.follow()
	f.eventually("a", "1.example.com")
	turn("v2")
	f.eventually("a", "2.example.com")
	f.write("v2/r.yaml", route("a", "3.example.com"))
	f.eventually("a", "3.example.com")
}

// Some file systems send no events, so a scan must find changes. The test writes a file through
// another hard link, which sends no event either.
func TestFile_ChangeWithoutEventIsFoundByScan(t *testing.T) {
	f := newFolder(t)
	elsewhere := filepath.Join(t.TempDir(), "same.yaml")
	f.write("r.yaml", route("a", "1.example.com"))
	if err := os.Link(filepath.Join(f.dir, "r.yaml"), elsewhere); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.read, err = file.New(file.Config{Paths: []string{f.dir}, Store: f.store, Poll: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	f.follow()
	if err := os.WriteFile(elsewhere, []byte(route("a", "changed.example.com")), 0o644); err != nil {
		t.Fatal(err)
	}
	f.eventually("a", "changed.example.com")
}

func TestFile_MissingFolderIsAnError(t *testing.T) {
	s := store.New()
	r, err := file.New(file.Config{Paths: []string{filepath.Join(t.TempDir(), "nowhere")}, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(context.Background()); err == nil {
		t.Error("no error")
	}
}
