package statefile

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// temporary is what the names of unfinished files have in them. They begin with a dot, so that readers of a folder skip them.
const temporary = ".new-"

// Replace replaces a file, whose folder is created if it does not exist. Once it returns nil, the new content survives a power
// cut. On an error the file keeps its content, unless it is an error of a sync after the replacement.
func Replace(path string, raw []byte) error { return replace(system{}, path, raw, 0o600) }

// Rewrite replaces a file that exists, and keeps its mode. It removes what a killed process has left of an earlier attempt.
func Rewrite(path string, raw []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+temporary+"*")); err == nil {
		for _, name := range left {
			_ = os.Remove(name)
		}
	}
	return replace(system{}, path, raw, info.Mode().Perm())
}

// Sweep removes the unfinished files below a state folder: a process was killed while it wrote them. Call it before this
// process writes.
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

// replace writes and syncs a temporary file, renames it, and syncs the folder: else a power cut may leave the new name with
// nothing in it, or the old content under it.
func replace(on disk, path string, raw []byte, mode fs.FileMode) error {
	folder := filepath.Dir(path)
	if err := makeFolder(on, folder); err != nil {
		return err
	}
	f, err := on.create(folder, "."+filepath.Base(path)+temporary+"*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err == nil && mode != 0o600 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = on.rename(f.Name(), path)
	}
	if err != nil {
		_ = on.remove(f.Name())
		return err
	}
	return on.syncFolder(folder)
}

// makeFolder makes a folder and those above it. A new one is lost with its files unless the folder above it is synced.
func makeFolder(on disk, path string) error {
	if on.isFolder(path) {
		return nil
	}
	above := filepath.Dir(path)
	if above == path {
		return on.mkdir(path)
	}
	if err := makeFolder(on, above); err != nil {
		return err
	}
	if err := on.mkdir(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return on.syncFolder(above)
}

// Outcome logs how writes of one file go: the first error of a row of errors, and the first success after it. It is not safe for
// concurrent use. The zero value is ready to use.
type Outcome struct{ failed bool }

// Failed reports whether the last write failed.
func (o *Outcome) Failed() bool { return o.failed }

// Log logs the result of a write. lost is what depends on the file.
func (o *Outcome) Log(log *slog.Logger, path, lost string, err error) {
	switch {
	case err != nil && !o.failed:
		log.Error("cannot write state; what is in memory stays in use", "file", path, "lost at a restart", lost, "error", err)
	case err == nil && o.failed:
		log.Info("state is written again", "file", path)
	}
	o.failed = err != nil
}
