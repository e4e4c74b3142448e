package processes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LockedError reports that another process supervises the folder.
type LockedError struct {
	Dir string
	PID int // of the other process; 0: not known
}

// Error implements error.
func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("the process %d", e.PID)
	}
	return fmt.Sprintf("%s already supervises the engines in %s: stop it, or choose another folder with --state",
		holder, e.Dir)
}

// lock locks a folder until the file is closed or this process ends. A child between fork and exec
// also holds the lock, so lock tries again until limit.
func lock(dir string, limit time.Duration) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(limit)
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || time.Now().After(deadline) {
			break
		}
		pause := time.NewTimer(20 * time.Millisecond)
		<-pause.C
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		raw, _ := io.ReadAll(io.LimitReader(f, 32))
		pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
		return nil, errors.Join(&LockedError{Dir: dir, PID: pid}, f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		return nil, errors.Join(fmt.Errorf("lock of %s: %w", dir, err), f.Close())
	}
	return f, nil
}
