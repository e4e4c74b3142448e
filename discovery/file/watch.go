package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// maxSettle bounds how long a burst that does not end is waited for.
const maxSettle = 200 * time.Millisecond

// Run loads everything, then follows changes until its context ends. It fails as Load does, or if nothing can be watched.
func (r *Reader) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("configuration: watch: %w", err)
	}
	defer watcher.Close()
	w := &watch{reader: r, notify: watcher, folders: map[string]fs.FileInfo{}, failed: map[string]bool{}, touched: map[string]bool{}}
	w.fence = newFence(r.cfg.StateDir, watcher)
	w.follow() // before reading, so that no change is missed in between
	if err := r.Load(ctx); err != nil {
		return err
	}
	poll := time.NewTicker(r.cfg.Poll)
	defer poll.Stop()
	for {
		var again <-chan time.Time
		if r.doubtful() {
			again = time.After(emptyGrace)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			w.everything = true
		case <-poll.C:
			w.everything = true
		case err, ok := <-watcher.Errors:
			if !ok {
				return nil
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				r.cfg.Log.Warn("watching the configuration", "error", err)
			}
			w.everything = true
		case ev, ok := <-watcher.Events:
			if !ok {
				return nil
			}
			w.note(ev)
			w.settle(ctx)
		}
		if err := w.sync(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// watch collects what changed between two reads.
type watch struct {
	reader     *Reader
	notify     *fsnotify.Watcher
	fence      *fence                 // nil: there is none
	folders    map[string]fs.FileInfo // those watched
	failed     map[string]bool        // folders that cannot be watched, which was said
	touched    map[string]bool        // paths that were told of
	everything bool                   // anything may have changed
}

// note takes in one event.
func (w *watch) note(ev fsnotify.Event) {
	path := filepath.Clean(ev.Name)
	switch {
	case ev.Op == fsnotify.Chmod && !readable(filepath.Base(path)), w.fence.owns(path), w.foreign(path):
	default:
		w.touched[path] = true
	}
}

// classify says which files of those that were told of are all that changed. A plain change of a file that was read names
// just that file; anything else, such as a new name, a folder or a link that was turned, means looking at everything.
// r.work is held.
func (r *Reader) classify(touched map[string]bool) (changed []string, everything bool) {
	for path := range touched {
		switch base := filepath.Base(path); {
		case r.plain(path):
			changed = append(changed, path)
		case hidden(base) && base != "..data":
			// Editors' files come and go; a mount's folders are followed by its ..data.
		default:
			everything = true
		}
	}
	slices.Sort(changed)
	return changed, everything
}

// plain says that a path is a file that was read and is not behind a link. r.work is held.
func (r *Reader) plain(path string) bool {
	if r.files[path] == nil {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// settle takes in events until nothing happens for a while.
func (w *watch) settle(ctx context.Context) {
	end := time.NewTimer(maxSettle)
	defer end.Stop()
	quiet := time.NewTimer(w.reader.cfg.Settle)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-quiet.C:
			return
		case ev, ok := <-w.notify.Events:
			if !ok {
				return
			}
			w.note(ev)
			quiet.Reset(w.reader.cfg.Settle)
		}
	}
}

// sync reads what was noted, and what is written meanwhile.
func (w *watch) sync(ctx context.Context) error {
	if !w.everything && len(w.touched) == 0 {
		return nil
	}
	first, following := true, false
	err := w.reader.sync(ctx, func() (changed []string, everything bool) {
		if !first {
			all := w.passed()
			if w.everything = w.everything || !all; len(w.touched) > 0 {
				w.settle(ctx) // what is written just now may be written by halves
			}
		}
		changed, everything = w.reader.classify(w.touched)
		clear(w.touched)
		if w.everything = w.everything || everything; w.everything && !following {
			following = true
			w.follow()
		}
		first = false
		return changed, w.everything
	})
	w.everything = false
	return err
}

// foreign says whether a path is in a folder that is watched for a root's own sake alone, and is not the root.
func (w *watch) foreign(path string) bool {
	alone := false
	for _, root := range w.reader.roots {
		if within(root.path, path) {
			return false
		}
		alone = alone || filepath.Dir(path) == filepath.Dir(root.path)
	}
	return alone
}

// follow watches every folder that a file may be in, or come to be in: those below the roots, those that links lead to,
// and those that the roots are in, since a root may be replaced as a whole.
func (w *watch) follow() {
	wanted := map[string]bool{}
	for _, root := range w.reader.roots {
		wanted[filepath.Dir(root.path)] = true
		if info, err := os.Stat(root.path); err == nil && info.IsDir() {
			foldersBelow(root.path, 0, wanted)
		} else if err == nil {
			linked(root.path, wanted)
		}
	}
	for dir := range w.folders {
		if !wanted[dir] {
			w.leave(dir)
		}
	}
	for dir := range wanted {
		w.enter(dir)
	}
}

// enter watches a folder, and anew if it is another of the same name.
func (w *watch) enter(dir string) {
	info, err := os.Stat(dir)
	if old := w.folders[dir]; old != nil && (err != nil || !os.SameFile(old, info)) {
		w.leave(dir)
	}
	if err == nil && w.folders[dir] == nil {
		err = w.notify.Add(dir)
	}
	switch {
	case err == nil:
		w.folders[dir] = info
		delete(w.failed, dir)
	case !errors.Is(err, fs.ErrNotExist) && !w.failed[dir]:
		w.failed[dir] = true
		w.reader.cfg.Log.Warn("cannot watch a folder; it is looked at from time to time", "folder", dir, "error", err)
	}
}

func (w *watch) leave(dir string) {
	_ = w.notify.Remove(dir) // may be gone already
	delete(w.folders, dir)
}

func foldersBelow(dir string, depth int, into map[string]bool) {
	into[dir] = true
	entries, err := os.ReadDir(dir)
	if err != nil || depth >= maxFolders {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case hidden(e.Name()):
		case e.IsDir():
			foldersBelow(path, depth+1, into)
		case e.Type()&fs.ModeSymlink != 0:
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				foldersBelow(path, depth+1, into)
			} else if readable(e.Name()) {
				linked(path, into)
			}
		}
	}
}

// linked adds the folder of the file that a link leads to.
func linked(path string, into map[string]bool) {
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		into[filepath.Dir(real)] = true
	}
}
