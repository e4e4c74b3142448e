package filesystem_test

import (
	"context"
	"errors"
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
)

// Reading a file that is not ordinary fails at once, and the error names the path.
func TestDisk_WhatNeverEndsIsAnError(t *testing.T) {
	dir := t.TempDir()
	fifo, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, make([]byte, filesystem.MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	var d filesystem.Disk
	for path, want := range map[string]error{
		fifo: filesystem.ErrIrregular, dir: filesystem.ErrIrregular, "/dev/zero": filesystem.ErrIrregular,
		large: filesystem.TooLarge(filesystem.MaxFile), filepath.Join(dir, "none"): fs.ErrNotExist,
	} {
		raw, err := d.Read(path)
		if !errors.Is(err, want) || raw != nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %d bytes, %v; want %v, with the path", path, len(raw), err, want)
		}
	}
	if f, err := d.Create(fifo); err == nil || f != nil {
		t.Errorf("a FIFO without a reader is opened: got %v, want an error", err)
	}
	if _, err := d.KeyPair(fifo, large); !errors.Is(err, filesystem.ErrIrregular) {
		t.Error(err)
	}
	if path := d.Stuck(); path != "" {
		t.Errorf("%s hangs, want nothing stuck", path)
	}
}

// A hanging operation delays its caller by the timeout. Further operations on the path fail at
// once. Stuck returns the path, until the operation returns.
func TestDisk_HungOperationIsLeftBehindAndNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d filesystem.Disk
		answers := make(chan struct{})
		var ran atomic.Int32
		try := func(path string) error {
			_, err := filesystem.Do(t.Context(), &d, path, func() (int, error) { ran.Add(1); <-answers; return 1, nil })
			return err
		}
		began := time.Now()
		for range 3 {
			if err := try("/mount"); !errors.Is(err, filesystem.ErrHung) {
				t.Error(err)
			}
		}
		if err := try("/mount/tls.crt"); !errors.Is(err, filesystem.ErrHung) {
			t.Error("below it: ", err)
		}
		if took := time.Since(began); took != filesystem.Timeout || ran.Load() != 1 {
			t.Errorf("%d operations in %v, want %v and 1", ran.Load(), took, filesystem.Timeout)
		}
		if path := d.Stuck(); path != "" {
			t.Errorf("%s is reported after %v, want nothing yet", path, filesystem.Timeout)
		}
		time.Sleep(filesystem.StuckAfter)
		if path := d.Stuck(); path != "/mount" {
			t.Errorf(`%q is reported, want "/mount"`, path)
		}
		close(answers)
		synctest.Wait()
		if path := d.Stuck(); path != "" {
			t.Errorf("%s is reported after it has answered, want nothing", path)
		}
		if err := try("/mount"); err != nil {
			t.Error(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		block := make(chan struct{})
		defer close(block)
		_, err := filesystem.Do(ended, &d, "/other", func() (int, error) { <-block; return 1, nil })
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
