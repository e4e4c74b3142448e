package file

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/penstock-project/penstock/discovery/filesystem"
)

// sentinel is a folder that only Penstock uses. One inotify watcher watches it and the
// configuration folders, and delivers events in order. So once the event of a new file in this
// folder arrives, the events of all earlier changes have arrived. Watchman does the same.
type sentinel struct {
	dir   string
	n     int
	works bool
}

const (
	sentinelFolder = "sentinel"
	// sentinelTimeout is how long to wait for the sentinel's event before all files are scanned.
	// The machine may stall, and some file systems send no events.
	sentinelTimeout = 2 * time.Second
)

func newSentinel(state string, notify *fsnotify.Watcher) *sentinel {
	if state == "" || runtime.GOOS != "linux" {
		return nil
	}
	f := &sentinel{dir: filepath.Join(state, sentinelFolder)}
	if os.RemoveAll(f.dir) != nil || os.MkdirAll(f.dir, 0o700) != nil || notify.Add(f.dir) != nil {
		return nil
	}
	return f
}

func (f *sentinel) owns(path string) bool { return f != nil && filesystem.Within(f.dir, path) }

// passed waits until the events of all earlier file changes have arrived. It returns false if
// events may be missing.
func (w *watch) passed() bool {
	f := w.sentinel
	if f == nil {
		return false
	}
	f.n++
	path := filepath.Join(f.dir, strconv.Itoa(f.n)) // a new name each time, so that late events do not match
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return false
	}
	defer func() { _ = os.Remove(path) }() // if this fails, the next newSentinel removes the file
	late := time.NewTimer(sentinelTimeout)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			if !f.works {
				w.sentinel = nil // the file system sends no events
			}
			return false
		case <-w.notify.Errors:
			return false // events may have been lost
		case ev, ok := <-w.notify.Events:
			if !ok {
				return false
			}
			if ev.Name == path {
				f.works = true
				return true
			}
			w.note(ev)
		}
	}
}
