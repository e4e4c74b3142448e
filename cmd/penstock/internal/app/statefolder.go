package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

const lookForState = 10 * time.Second

// watchState logs once that the state folder was removed or replaced, so that other commands do not
// find this process. The open folder keeps its inode number from being reused.
func (a *App) watchState(ctx context.Context) error {
	dir, err := os.Open(a.cfg.StateDir)
	if err != nil {
		return nil // no state folder
	}
	defer func() { _ = dir.Close() }()
	first, err := dir.Stat()
	if err != nil {
		return nil
	}
	again := time.NewTicker(lookForState)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
		now, err := os.Stat(a.cfg.StateDir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(first, now) {
			a.log.Error("the state folder was removed: penstock down, status and the next start do not find this "+
				"process and its model servers; end it with Ctrl-C, or kill -INT, and start it again",
				"folder", a.cfg.StateDir, "pid", os.Getpid())
			return nil
		}
	}
}
