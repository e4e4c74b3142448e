package statefile

import (
	"log/slog"
	"os"
	"path/filepath"
)

// Replace replaces a file, whose folder is created if it does not exist. On an error the file keeps its content.
func Replace(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync() // else a power cut may leave the new name with nothing in it
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
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
