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

	"github.com/penstock-project/penstock/discovery/filesystem"
)

// Changed files are read after debounceQuiet without an event, and at the latest debounceMax after
// the first event.
const (
	debounceQuiet = 5 * time.Millisecond
	debounceMax   = 200 * time.Millisecond
)

// Run loads all files, then follows their changes until ctx ends. It fails for the same reasons as
// Load, and if the system provides no file events.
func (r *Reader) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("configuration: watch: %w", err)
	}
	defer watcher.Close()
	w := &watch{reader: r, notify: watcher, folders: map[string]fs.FileInfo{}, failed: map[string]bool{},
		changed: map[string]bool{}}
	w.sentinel = newSentinel(r.cfg.StateDir, watcher)
	w.follow() // watches begin before the first read, so no change is missed
	if err := r.Load(ctx); err != nil {
		return err
	}
	poll := time.NewTicker(r.cfg.Poll)
	defer poll.Stop()
	for {
		var again <-chan time.Time
		if r.hasEmptied() {
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
				r.cfg.Log.Warn("watching files failed; all files are read again", "error", err)
			}
			w.everything = true
		case ev, ok := <-watcher.Events:
			if !ok {
				return nil
			}
			w.note(ev)
			w.debounce(ctx)
		}
		if err := w.sync(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

type watch struct {
	reader     *Reader
	notify     *fsnotify.Watcher
	sentinel   *sentinel // nil: each change causes a full scan
	folders    map[string]fs.FileInfo
	failed     map[string]bool // folders that cannot be watched; each is logged once
	changed    map[string]bool
	everything bool // any file may have changed
}

func (w *watch) note(ev fsnotify.Event) {
	path := filepath.Clean(ev.Name)
	switch {
	case ev.Op == fsnotify.Chmod && !readable(filepath.Base(path)), w.sentinel.owns(path), w.outside(path):
	default:
		w.changed[path] = true
	}
}

// classify returns the changed files among the paths that had events. everything is true if all
// files must be scanned, because an event was about a new name, a folder or a link. The caller
// holds r.work.
func (r *Reader) classify(paths map[string]bool) (changed []string, everything bool) {
	for path := range paths {
		switch base := filepath.Base(path); {
		case r.plain(path):
			changed = append(changed, path)
		case hidden(base) && base != "..data":
			// Hidden files have no effect, except the link ..data, which changes with a mounted
			// ConfigMap.
		default:
			everything = true
		}
	}
	slices.Sort(changed)
	return changed, everything
}

// plain reports whether a path is a regular file, not a link, that was read before. The caller
// holds r.work.
func (r *Reader) plain(path string) bool {
	if r.files[path] == nil {
		return false
	}
	info, err := r.disk.lstat(path)
	return err == nil && info.Mode().IsRegular()
}

func (w *watch) debounce(ctx context.Context) {
	end := time.NewTimer(debounceMax)
	defer end.Stop()
	quiet := time.NewTimer(w.reader.cfg.Debounce)
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
			quiet.Reset(w.reader.cfg.Debounce)
		}
	}
}

func (w *watch) sync(ctx context.Context) error {
	if !w.everything && len(w.changed) == 0 {
		return nil
	}
	first, following := true, false
	err := w.reader.sync(ctx, func() (changed []string, everything bool) {
		if !first {
			all := w.passed()
			if w.everything = w.everything || !all; len(w.changed) > 0 {
				w.debounce(ctx) // a file that is being written may be incomplete
			}
		}
		changed, everything = w.reader.classify(w.changed)
		clear(w.changed)
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

// outside reports whether events of a path must be ignored. Such a path is below no root: its
// folder is watched only because the folder contains a root.
func (w *watch) outside(path string) bool {
	alone := false
	for _, root := range w.reader.roots {
		if filesystem.Within(root.path, path) {
			return false
		}
		alone = alone || filepath.Dir(path) == filepath.Dir(root.path)
	}
	return alone
}

// follow watches every folder that may have a configuration file: below the roots, and at the
// targets of links. It also watches the parents of the roots, because a whole root may be replaced.
func (w *watch) follow() {
	wanted := map[string]bool{}
	d := w.reader.disk
	linked := func(path string) {
		real, err := bounded(d, path, func() (string, error) { return filepath.EvalSymlinks(path) })
		if err == nil && real != path {
			wanted[filepath.Dir(real)] = true
		}
	}
	t := tree{disk: d, entered: map[identity]bool{}, fail: func(string, error) {},
		folder: func(path string) { wanted[path] = true }, file: func(path string, link bool) {
			if link {
				linked(path)
			}
		}}
	for _, root := range w.reader.roots {
		wanted[filepath.Dir(root.path)] = true
		if info, err := d.stat(root.path); err == nil && info.IsDir() {
			t.walk(root.path, 0)
		} else if err == nil {
			linked(root.path)
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

func (w *watch) enter(dir string) {
	d := w.reader.disk
	info, err := d.stat(dir)
	if old := w.folders[dir]; old != nil && (err != nil || !os.SameFile(old, info)) {
		w.leave(dir)
	}
	if err == nil && w.folders[dir] == nil {
		_, err = bounded(d, dir, func() (struct{}, error) { return struct{}{}, w.notify.Add(dir) })
	}
	switch {
	case err == nil:
		w.folders[dir] = info
		delete(w.failed, dir)
	case !errors.Is(err, fs.ErrNotExist) && !w.failed[dir]:
		w.failed[dir] = true
		w.reader.cfg.Log.Warn("cannot watch a folder; it is scanned periodically instead", "folder", dir, "error", err)
	}
}

func (w *watch) leave(dir string) {
	_ = w.notify.Remove(dir) // the folder may be gone
	delete(w.folders, dir)
}
