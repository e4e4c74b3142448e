package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/engine/fetch/registrytest"
)

func smallDisk(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); errors.Is(err, fs.ErrPermission) {
		t.Skip("a filesystem can be mounted by root alone")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// unfinished returns the number of complete blobs, and the size of the incomplete blobs.
func unfinished(t *testing.T, folder string) (named int, bytes int64) {
	t.Helper()
	blobs, err := filepath.Glob(filepath.Join(folder, "models--*", "blobs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range blobs {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, ".incomplete") {
			bytes += info.Size()
		} else {
			named++
		}
	}
	return named, bytes
}

func TestFetch_ADiskThatBecomesFullIsNamedAndTheDownloadGoesOnOnceThereIsRoom(t *testing.T) {
	weights := random(12 << 20)
	r := registry(t, registrytest.File{Name: "model.safetensors", Content: weights, LFS: true})
	disk := smallDisk(t, "16m")
	const reserve = 1 << 20
	f := fetch.New(fetch.Config{Folder: filepath.Join(disk, "hub"), Reserve: reserve, Backoff: time.Millisecond,
		Stall: time.Minute})
	other := filepath.Join(disk, "other") // a file with which another program fills the disk
	fill := func(fetch.Progress) {
		if _, err := os.Stat(other); errors.Is(err, fs.ErrNotExist) {
			if err := os.WriteFile(other, make([]byte, 8<<20), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := f.Fetch(t.Context(), source(r), fill)
	var problem *fetch.Error
	if !errors.As(err, &problem) {
		t.Fatalf("got %v, want an error about the disk", err)
	}
	named, kept := unfinished(t, filepath.Join(disk, "hub"))
	if named != 0 || kept == 0 || kept >= int64(len(weights)) {
		t.Errorf("%d files have their final names, and %d bytes are kept: want none, and a part", named, kept)
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(disk, &s); err != nil || int64(s.Bavail)*s.Bsize < reserve {
		t.Errorf("%d bytes are free (%v), want the reserve", int64(s.Bavail)*s.Bsize, err)
	}
	for _, want := range []string{filepath.Join(disk, "hub"), "needs " + fetch.Size(int64(len(weights))-kept),
		"has " + fetch.Size(int64(s.Bavail)*s.Bsize)} {
		if !strings.Contains(problem.Problem, want) {
			t.Errorf("%q lacks %q", problem.Problem, want)
		}
	}
	if _, err := f.Fetch(t.Context(), source(r), nil); !errors.As(err, &problem) {
		t.Errorf("while the disk is full: %v, want the same error", err)
	}

	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	before := len(r.Requests())
	m, err := f.Fetch(t.Context(), source(r), nil)
	if err != nil {
		t.Fatal("with room again:", err)
	}
	if got, err := os.ReadFile(filepath.Join(m.Path, "model.safetensors")); err != nil || !bytes.Equal(got, weights) {
		t.Errorf("%d bytes %v, want the weights", len(got), err)
	}
	resumed := false
	for _, q := range r.Requests()[before:] {
		resumed = resumed || q.Range != "" && q.Range != "bytes=0-"
	}
	if !resumed {
		t.Errorf("the download began again: %+v", r.Requests()[before:])
	}
}

// If the disk has no room for a model, Fetch fails before it downloads anything.
func TestFetch_ADiskWithoutRoomIsNamedBeforeTheDownload(t *testing.T) {
	r := registry(t, registrytest.File{Name: "model.safetensors", Content: random(2 << 20), LFS: true})
	disk := smallDisk(t, "1m")
	f := fetch.New(fetch.Config{Folder: disk, Reserve: 1})
	_, err := f.Fetch(context.WithoutCancel(t.Context()), source(r), nil)
	if err == nil || !strings.Contains(err.Error(), "the download needs 2.0 MiB, and the disk with "+disk+" has ") {
		t.Errorf("got %v, want the path and both sizes", err)
	}
	if n := blobRequests(r); n != 0 {
		t.Errorf("%d requests for contents, want none", n)
	}
}
