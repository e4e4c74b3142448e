package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
)

const (
	// maxFile is the size of the largest file that is read, in bytes.
	maxFile = 64 << 20
	// emptyGrace is how long a file that had objects may be empty before that is believed: a shell empties a file long
	// before the command that fills it has written.
	emptyGrace = 2 * time.Second
	// maxLooks bounds how often a folder is looked at that is written to without a pause.
	maxLooks = 50
	// maxFolders bounds folders below folders, against links that lead in circles.
	maxFolders = 32
)

// root is one path that a user gave.
type root struct {
	path string // as given
	abs  string
}

func newRoot(path string) (root, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return root{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return root{path: filepath.Clean(path), abs: abs}, nil
}

// signature tells whether a file is the one that was read.
type signature struct {
	info fs.FileInfo
}

func (s signature) same(info fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime())
}

// news are files that are not as they were taken: what they are now, by path; nil for one that is gone.
type news map[string]*source

// latest is a file as it was seen last; nil if there is none.
func (r *Reader) latest(n news, path string) *source {
	if src, seen := n[path]; seen {
		return src
	}
	return r.files[path]
}

// anything is what a Reader is told of that nobody tells of changes.
func anything() (changed []string, everything bool) { return nil, true }

// gather finds files that are new or changed, with their documents still to be read, and files that are gone, all as of
// one moment. Files are read one after the other, and whoever writes meanwhile knows what must come first, such as a
// backend before the route to it. So it goes on until nothing has changed: then all files are as they were read when it
// was told so, or when the last look at all of them began. told as in sync; files that it names are read whatever their
// times say.
func (r *Reader) gather(told func() (changed []string, everything bool)) (fresh []*source, gone []string, problems []mistake) {
	n, problems, steady := news{}, r.problems, false
	for look := 0; look < maxLooks && !steady; look++ {
		changed, everything := told()
		r.open(changed, true, n)
		if steady = len(changed) == 0; everything {
			steady, problems = r.look(n)
		}
	}
	if !steady {
		r.cfg.Log.Warn("the configuration is written to without a pause: half of a change may be in force")
	}
	for _, path := range slices.Sorted(maps.Keys(n)) {
		switch src := n[path]; {
		case src != nil:
			fresh = append(fresh, src)
		case r.files[path] != nil:
			gone = append(gone, path)
		}
	}
	return fresh, gone, problems
}

// look adds what has changed since it was seen last. steady says that nothing has.
func (r *Reader) look(n news) (steady bool, problems []mistake) {
	found, lost, problems := r.list()
	steady = !r.open(found, false, n)
	missing := func(path string) bool {
		_, here := slices.BinarySearch(found, path)
		return !here && !slices.ContainsFunc(lost, func(root string) bool { return within(root, path) })
	}
	for path := range r.files {
		if r.latest(n, path) != nil && missing(path) {
			n[path], steady = nil, false
		}
	}
	for path, src := range n {
		if src != nil && missing(path) {
			n[path], steady = nil, false
		}
	}
	return steady, problems
}

// list finds every file below the roots, sorted, and the roots that are not there any more: what was read from those
// stays.
func (r *Reader) list() (found, lost []string, problems []mistake) {
	seen := map[string]bool{}
	for _, root := range r.roots {
		info, err := os.Stat(root.path)
		if err != nil {
			lost = append(lost, root.path)
			problems = append(problems, mistake{severity: report.Error, problem: fmt.Sprintf("%s cannot be read: %s; what was read from it stays in use", root.path, clean(err)), fix: "put it back"})
			continue
		}
		if !info.IsDir() {
			seen[root.path] = true
			continue
		}
		walk(root.path, 0, func(path string) { seen[path] = true }, func(path string, err error) {
			lost = append(lost, path)
			problems = append(problems, mistake{severity: report.Error, problem: fmt.Sprintf("%s cannot be read: %s", path, clean(err)), fix: "allow reading it"})
		})
	}
	return slices.Sorted(maps.Keys(seen)), lost, problems
}

// walk visits the files below a folder that hold configuration by their names. Links are followed, as mounted ConfigMaps
// need it; names that start with a dot are skipped, which leaves out editors' files and the folders behind such mounts.
func walk(dir string, depth int, visit func(path string), fail func(path string, err error)) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		fail(dir, err)
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if hidden(e.Name()) {
			continue
		}
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			if info, err := os.Stat(path); err == nil {
				isDir = info.IsDir()
			}
		}
		switch {
		case isDir && depth < maxFolders:
			walk(path, depth+1, visit, fail)
		case !isDir && readable(e.Name()):
			visit(path)
		}
	}
}

// hidden says whether a name is one of those that editors, version control and mounts use for themselves.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#")
}

func readable(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !hidden(name)
	}
	return false
}

// open splits the files at paths that are not as they were seen last, and says whether there were any.
func (r *Reader) open(paths []string, forced bool, n news) (any bool) {
	for _, path := range paths {
		old := r.latest(n, path)
		info, err := os.Stat(path)
		if err == nil && !forced && old != nil && old.mark.same(info) {
			continue
		}
		src := &source{path: path, mark: signature{info}}
		var raw []byte
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if old != nil {
				n[path], any = nil, true
			}
			continue
		case err == nil && !info.Mode().IsRegular():
			continue
		case err == nil && info.Size() > maxFile:
			err = fmt.Errorf("it is larger than %d MiB", maxFile>>20)
		case err == nil:
			raw, err = r.readFile(path)
		}
		if err != nil {
			src.unusable = &mistake{severity: report.Error, problem: "cannot be read: " + clean(err), fix: "allow reading it, or move it out of the folder"}
		} else if text, ok := decodeText(raw); ok {
			src.docs = split(text)
		} else {
			src.unusable = &mistake{severity: report.Error, problem: "is not text in UTF-8", fix: "save it as UTF-8"}
		}
		if old != nil && info == nil && old.mark.info == nil && *old.unusable == *src.unusable {
			continue // nor could it be looked at before
		}
		if r.doubt(src, old, len(bytes.TrimSpace(raw)) == 0) {
			continue
		}
		n[path], any = src, true
	}
	return any
}

// doubt says whether a file that had objects and is empty now should be looked at again before that is believed.
func (r *Reader) doubt(src, old *source, empty bool) bool {
	if old == nil || len(old.docs) == 0 || !empty || src.unusable != nil {
		delete(r.emptied, src.path)
		return false
	}
	since, known := r.emptied[src.path]
	if !known {
		since = time.Now()
		r.emptied[src.path] = since
	}
	if time.Since(since) < emptyGrace {
		return true
	}
	delete(r.emptied, src.path)
	return false
}

// doubtful says whether some file is to be looked at again soon.
func (r *Reader) doubtful() bool {
	r.work.Lock()
	defer r.work.Unlock()
	return len(r.emptied) > 0
}

// within says whether path is dir or below it.
func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator)) || dir == "."
}
