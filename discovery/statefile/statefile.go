package statefile

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// temporary marks the names of unfinished files. They begin with a dot, so that readers of a folder
// skip them.
const temporary = ".new-"

// Replace replaces a file on this machine. See ReplaceOn.
func Replace(path string, raw []byte) error { return ReplaceOn(Machine{}, path, raw) }

// ReplaceOn replaces a file, whose folder is created if it does not exist. Its mode is 0600. Once
// it returns nil, the new content survives a power cut. On an error the file has its old content or
// the new one, never a part.
func ReplaceOn(d Disk, path string, raw []byte) error { return replace(d, path, raw, 0o600) }

// Rewrite replaces a file that exists on this machine, and keeps its mode. It removes what a killed
// process has left of an earlier attempt.
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
	return replace(Machine{}, path, raw, info.Mode().Perm())
}

// Sweep removes the unfinished files below a state folder: a process was killed while it wrote
// them. Call it before this process writes.
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

// replace writes and syncs a temporary file, renames it, and syncs the folder: else a power cut may
// leave the new name with nothing in it, or the old content under it.
func replace(d Disk, path string, raw []byte, mode fs.FileMode) error {
	folder := filepath.Dir(path)
	if err := makeFolder(d, folder); err != nil {
		return err
	}
	f, err := d.CreateTemp(folder, "."+filepath.Base(path)+temporary+"*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
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

// makeFolder makes a folder and those above it. A new one is lost with its files unless the folder
// above it is synced.
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

// Outcome logs how writes of one file go: the first error of a row of errors, and the first success
// after it. It is not safe for concurrent use. The zero value is ready to use.
type Outcome struct{ failed bool }

// Failed reports whether the last write failed.
func (o *Outcome) Failed() bool { return o.failed }

// Log logs the result of a write. lost is what depends on the file.
func (o *Outcome) Log(log *slog.Logger, path, lost string, err error) {
	switch {
	case err != nil && !o.failed:
		log.Error("cannot write state; what is in memory stays in use", "file", path, "lost at a restart", lost,
			"error", err)
	case err == nil && o.failed:
		log.Info("state is written again", "file", path)
	}
	o.failed = err != nil
}
