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

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/status/report"
)

const (
	maxFile = 64 << 20
	// emptyGrace is how long the objects of an emptied file stay. A shell with a redirection
	// truncates a file long before the command writes to it.
	emptyGrace = 2 * time.Second
	maxScans   = 50
)

type root struct {
	path string
	abs  string
}

func newRoot(path string) (root, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return root{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return root{path: filepath.Clean(path), abs: abs}, nil
}

type signature struct {
	info fs.FileInfo
}

func (s signature) same(info fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() &&
		s.info.ModTime().Equal(info.ModTime())
}

// changes maps the paths of changed files to their new sources; nil: the file was removed.
type changes map[string]*source

func (r *Reader) latest(n changes, path string) *source {
	if src, seen := n[path]; seen {
		return src
	}
	return r.files[path]
}

type nextChanges func() (files []string, everything bool)

func scanEverything() (files []string, everything bool) { return nil, true }

// gather reads the changed files. It repeats until no file changes during a pass, because a user
// may write a route and its backend one after the other. It reads the files from next even if their
// modification times are unchanged.
func (r *Reader) gather(next nextChanges) (fresh []*source, gone []string, problems []mistake) {
	n, problems, steady := changes{}, r.problems, false
	for pass := 0; pass < maxScans && !steady; pass++ {
		files, everything := next()
		r.open(files, true, n)
		if steady = len(files) == 0; everything {
			steady, problems = r.scan(n)
		}
	}
	if !steady {
		r.cfg.Log.Warn("configuration files change without a pause: half of a change may be in use")
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

func (r *Reader) scan(n changes) (steady bool, problems []mistake) {
	found, lost, problems := r.list()
	steady = !r.open(found, false, n)
	missing := func(path string) bool {
		_, here := slices.BinarySearch(found, path)
		return !here && !slices.ContainsFunc(lost, func(root string) bool { return filesystem.Within(root, path) })
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

// list finds all files below the roots. lost has the paths that have become unreadable. Objects
// from files at or below these paths stay in use.
func (r *Reader) list() (found, lost []string, problems []mistake) {
	seen := map[string]bool{}
	t := tree{disk: r.disk, entered: map[identity]bool{}, file: func(path string, _ bool) { seen[path] = true },
		fail: func(path string, err error) {
			if errors.Is(err, errVisited) {
				problems = append(problems, mistake{
					severity: report.Warning, problem: fmt.Sprintf("%s is not read: %v", path, err),
					fix: "remove the link",
				})
				return
			}
			fix := "make it readable for penstock"
			if errors.Is(err, errTooMany) {
				fix = "move files that are no configuration out of it"
			}
			lost = append(lost, path)
			problems = append(problems,
				mistake{severity: report.Error, problem: fmt.Sprintf("%s cannot be read: %s", path, clean(err)),
					fix: fix, denied: errors.Is(err, fs.ErrPermission)})
		}}
	for _, root := range r.roots {
		info, err := r.disk.stat(root.path)
		switch {
		case err != nil:
			lost = append(lost, root.path)
			problems = append(problems,
				mistake{
					severity: report.Error,
					problem: fmt.Sprintf("%s cannot be read: %s; objects that were read from it stay in use",
						root.path, clean(err)), fix: "restore it",
				})
		case info.IsDir():
			t.walk(root.path, 0)
		default:
			seen[root.path] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), lost, problems
}

// permitted returns an error if penstock has no permission to read a file or folder. The file may
// have an AccessPolicy whose targets would be open.
func permitted(fresh []*source, problems []mistake) error {
	for _, p := range problems {
		if p.denied {
			return fmt.Errorf("%s; it may hold an AccessPolicy: %s", p.problem, p.fix)
		}
	}
	for _, src := range fresh {
		if p := src.unusable; p != nil && p.denied {
			return fmt.Errorf("%s %s; it may hold an AccessPolicy: %s", src.path, p.problem, p.fix)
		}
	}
	return nil
}

func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#")
}

func readable(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return !hidden(name)
	}
	return false
}

func (r *Reader) open(paths []string, forced bool, n changes) (any bool) {
	for _, path := range paths {
		old := r.latest(n, path)
		info, err := r.disk.stat(path)
		if err == nil && !forced && old != nil && old.mark.same(info) {
			continue
		}
		src := &source{path: path, mark: signature{info}}
		var raw []byte
		switch {
		case errors.Is(err, fs.ErrNotExist) && r.disk.isLink(path): // the link's target may return
			err = errDangling
		case errors.Is(err, fs.ErrNotExist):
			if old != nil {
				n[path], any = nil, true
			}
			continue
		case err == nil && !info.Mode().IsRegular():
			err = filesystem.ErrIrregular
		case err == nil && info.Size() > maxFile:
			err = filesystem.TooLarge(maxFile)
		case err == nil:
			if raw, err = r.disk.readFile(path); errors.Is(err, filesystem.ErrHung) {
				src.mark.info, info = nil, nil // the next scan reads the file again
			}
		}
		text, ok := "", false
		if err == nil {
			text, ok = decodeText(raw)
		}
		if err != nil {
			src.unusable = &mistake{severity: report.Error, problem: "cannot be read: " + clean(err),
				fix:    "make it readable for penstock, or move it out of the folder",
				denied: errors.Is(err, fs.ErrPermission)}
		} else if ok {
			src.docs = split(text)
			for i, doc := range src.docs {
				doc.digest, doc.number = digestOf(doc.text), i+1
			}
			src.total = len(src.docs)
		} else {
			doc := &document{text: text, line: 1, number: 1, unreadable: true}
			doc.digest = digestOf(string(raw))
			src.docs, src.total = []*document{doc}, 1
		}
		if old != nil && info == nil && old.mark.info == nil && *old.unusable == *src.unusable {
			continue
		}
		if r.deferEmptied(src, old, len(bytes.TrimSpace(raw)) == 0) {
			continue
		}
		n[path], any = src, true
	}
	return any
}

func (r *Reader) deferEmptied(src, old *source, empty bool) bool {
	if old == nil || old.total == 0 || !empty || src.unusable != nil {
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

func (r *Reader) hasEmptied() bool {
	r.work.Lock()
	defer r.work.Unlock()
	return len(r.emptied) > 0
}
