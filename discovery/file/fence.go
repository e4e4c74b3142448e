package file

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/fsnotify/fsnotify"
)

// fence is a folder of our own, watched beside those of the configuration. Linux tells of all that a watcher watches in the
// order in which it happened: who makes a file here, and is told of it, has been told of everything that came before. So
// whether anything changed while files were read costs the same however many there are. (Watchman knows when it is up to
// date by the same means.)
type fence struct {
	dir   string
	n     int
	works bool // it was told of
}

const (
	fenceFolder = "fence"
	// fencePatience is how long to wait to be told. A machine may stand still, and a file system may never tell: then
	// everything is looked at instead.
	fencePatience = 2 * time.Second
)

// newFence makes one in the state folder; nil if there is none, or no order to rely on.
func newFence(state string, notify *fsnotify.Watcher) *fence {
	if state == "" || runtime.GOOS != "linux" {
		return nil
	}
	f := &fence{dir: filepath.Join(state, fenceFolder)}
	if os.RemoveAll(f.dir) != nil || os.MkdirAll(f.dir, 0o700) != nil || notify.Add(f.dir) != nil {
		return nil
	}
	return f
}

func (f *fence) owns(path string) bool { return f != nil && within(f.dir, path) }

// passed notes everything that happened until now; false if it cannot be known to be everything.
func (w *watch) passed() bool {
	f := w.fence
	if f == nil {
		return false
	}
	f.n++
	path := filepath.Join(f.dir, strconv.Itoa(f.n)) // a new one each time: what is told late is of no other
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return false
	}
	defer func() { _ = os.Remove(path) }() // at the latest the next process does
	late := time.NewTimer(fencePatience)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			if !f.works {
				w.fence = nil // nor will it
			}
			return false
		case <-w.notify.Errors:
			return false // an overflow, perhaps
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
