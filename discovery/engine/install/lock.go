package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const lockEnd = "-lock"

// lock excludes other installations of the same engine until the returned file is closed.
func lock(folder, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, "."+name+lockEnd), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("folder of engines: %w", err)
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another process installs %s: wait for its end", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
