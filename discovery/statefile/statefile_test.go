package statefile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/discovery/statefile"
)

func TestStateFile_IsWholeOrAsBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "state")
	for _, text := range []string{"one", "two"} {
		if err := statefile.Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != text {
			t.Errorf("got %q, %v; want %q", raw, err, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	small := limit
	small.Cur = 1 << 10 // a longer write fails in the middle, as on a full disk
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	err := statefile.Replace(path, bytes.Repeat([]byte("three"), 1<<10))
	if reset := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); reset != nil {
		t.Fatal(reset)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("the write beyond the limit: %v, want %v", err, syscall.EFBIG)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "two" {
		t.Errorf(`after a failed write: got %.20q, %v; want "two"`, raw, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left over: %v, want none", left)
	}
}

func TestStateFile_FailureIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	var o statefile.Outcome
	full := syscall.ENOSPC
	for _, err := range []error{nil, full, full, full, nil, nil, full} {
		o.Log(logger, "/state/f", "the last good objects", err)
	}
	text := log.String()
	if n := strings.Count(text, "no space left"); n != 2 {
		t.Errorf("%d lines of the failure, want 2:\n%s", n, text)
	}
	if n := strings.Count(text, "written again"); n != 1 {
		t.Errorf("%d lines of the success, want 1:\n%s", n, text)
	}
}

func TestStateFile_KilledProcessLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	write := func(name string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("text"), 0o640); err != nil {
			t.Fatal(err)
		}
		return path
	}
	left := []string{write(".identity.json.new-123"), write("cluster/records/.east.jsonl.new-4")}
	stays := []string{write("identity.json"), write("user.new-1"), write("cluster/.hidden")}
	if err := statefile.Sweep(folder); err != nil {
		t.Fatal(err)
	}
	if err := statefile.Sweep(filepath.Join(folder, "absent")); err != nil {
		t.Error(err)
	}
	for _, path := range left {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v, want %v", path, err, os.ErrNotExist)
		}
	}
	for _, path := range stays {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	file := stays[0]
	unfinished := write(".identity.json.new-77")
	if err := statefile.Rewrite(file, []byte("again")); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 || string(raw) != "again" {
		t.Errorf(`got mode %v, %v, %q; want 0640 and "again"`, info.Mode(), err, raw)
	}
	if _, err := os.Stat(unfinished); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v, want %v", unfinished, err, os.ErrNotExist)
	}
}

type full struct{ statefile.Machine }

func (d full) CreateTemp(folder, pattern string) (statefile.File, error) {
	f, err := d.Machine.CreateTemp(folder, pattern)
	return fullFile{f}, err
}

type fullFile struct{ statefile.File }

func (f fullFile) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
}

func TestStateFile_ErrorsOfOneCauseAreEqual(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	want := "write " + path + ": no space left on device: make room on its disk"
	for range 2 {
		err := statefile.ReplaceOn(full{}, path, []byte("one"))
		if err == nil || err.Error() != want || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := statefile.Replace(path, []byte("one")); err == nil || strings.Contains(err.Error(), ".new-") {
		t.Errorf("over a folder: %v, want an error without a temporary name", err)
	}
}
