package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// temporary is part of the names of unfinished files: .NAME.new-RANDOM. Readers of a folder skip
// names that begin with a dot.
const temporary = ".new-"

// Replace is ReplaceOn for this machine.
func Replace(path string, raw []byte) error { return ReplaceOn(Machine{}, path, raw) }

// ReplaceOn replaces a file with mode 0600 and creates its folder if necessary. Once it returns
// nil, the new content survives a power cut.
func ReplaceOn(d Disk, path string, raw []byte) error { return replace(d, path, whole(raw), 0o600) }

// ReplaceBy is Replace with the content that write writes. If write fails, the old content stays.
func ReplaceBy(path string, write func(io.Writer) error) error {
	return replace(Machine{}, path, write, 0o600)
}

func whole(raw []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}
}

// ReplaceReadable is Replace with mode 0644, for files without secrets that other users read.
func ReplaceReadable(path string, raw []byte) error {
	return replace(Machine{}, path, whole(raw), 0o644)
}

// Rewrite replaces an existing file on this machine and keeps its mode. It removes unfinished files
// that a killed process left.
func Rewrite(path string, raw []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+temporary+"*")); err ==
		nil {
		for _, name := range left {
			_ = os.Remove(name)
		}
	}
	return replace(Machine{}, path, whole(raw), info.Mode().Perm())
}

// Sweep removes unfinished files that a killed process left below a state folder. Call it before
// this process writes files there.
func Sweep(folder string) error {
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.Type().IsRegular() && strings.HasPrefix(name, ".") && strings.Contains(name, temporary) {
			return os.Remove(path)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func replace(d Disk, path string, write func(io.Writer) error, mode fs.FileMode) error {
	return named(path, replaceUnnamed(d, path, write, mode))
}

// named replaces the unfinished file's random name in an error by path, so that the same cause
// gives the same error. It adds the fix for a full disk.
func named(path string, err error) error {
	var at *fs.PathError
	var move *os.LinkError
	switch {
	case errors.As(err, &at) && strings.Contains(filepath.Base(at.Path), temporary):
		err = &fs.PathError{Op: at.Op, Path: path, Err: at.Err}
	case errors.As(err, &move):
		err = &fs.PathError{Op: move.Op, Path: path, Err: move.Err}
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w: make room on its disk", err)
	}
	return err
}

// replaceUnnamed writes a temporary file and, once it is complete, renames it to path. It syncs the
// file and its folder. Otherwise a power cut may leave the file empty, or with the old content.
func replaceUnnamed(d Disk, path string, write func(io.Writer) error, mode fs.FileMode) error {
	folder := filepath.Dir(path)
	if err := makeFolder(d, folder); err != nil {
		return err
	}
	f, err := d.CreateTemp(folder, "."+filepath.Base(path)+temporary+"*")
	if err != nil {
		return err
	}
	err = write(f)
	if changes, ok := f.(interface{ Chmod(fs.FileMode) error }); ok && err == nil && mode != 0o600 {
		err = changes.Chmod(mode)
	}
	if err == nil && !faulty("file sync") {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = d.Rename(f.Name(), path)
	}
	if err != nil {
		_ = d.Remove(f.Name())
		return err
	}
	if faulty("folder sync") {
		return nil
	}
	return d.Sync(folder)
}

// makeFolder creates a missing folder. It syncs the parent folder, because a power cut may
// otherwise remove the new folder.
func makeFolder(d Disk, path string) error {
	if f, err := d.Open(path); err == nil {
		return f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(path)
	if above == path {
		return d.MkdirAll(path, 0o700)
	}
	if err := makeFolder(d, above); err != nil {
		return err
	}
	if err := d.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return d.Sync(above)
}

// Outcome logs the first of consecutive write errors of one file, and the first success after them.
// It is not safe for concurrent use.
type Outcome struct{ failed bool }

// Failed reports whether the last write failed.
func (o *Outcome) Failed() bool { return o.failed }

// Log logs the result of a write. lost names the data that exists only in memory after a failure.
func (o *Outcome) Log(log *slog.Logger, path, lost string, err error) {
	switch {
	case err != nil && !o.failed:
		log.Error("cannot write state; the state in memory stays in use", "file", path, "lost at a restart", lost,
			"error", err)
	case err == nil && o.failed:
		log.Info("state is written again", "file", path)
	}
	o.failed = err != nil
}
