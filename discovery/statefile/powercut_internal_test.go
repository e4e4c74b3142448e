package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// model is a Disk that can list the possible results of a power cut. The content of a file is
// certainly on the disk once the file is synced. The names in a folder are certainly on the disk
// once the folder is synced. Before that, changes of names reach the disk in their order.
type model struct {
	folders map[string]*folder
	inodes  int
	stop    int // number of operations until the power cut; later operations panic with errCut
}

type folder struct {
	synced  map[string]*inode // names that survive a power cut
	pending []change          // later changes; a power cut keeps some of the first ones
}

type change struct {
	name string
	to   *inode // nil: removed
}

type inode struct {
	folder  bool
	synced  string
	written string
}

var errCut = fmt.Errorf("power cut")

func newModel() *model {
	return &model{folders: map[string]*folder{"/": {synced: map[string]*inode{}}}, stop: 1 << 30}
}

func (m *model) step() {
	if m.stop--; m.stop < 0 {
		panic(errCut)
	}
}

func (m *model) set(path string, to *inode) {
	f := m.folders[filepath.Dir(path)]
	f.pending = append(f.pending, change{filepath.Base(path), to})
}

func (m *model) get(path string) *inode {
	f := m.folders[filepath.Dir(path)]
	if f == nil {
		return nil
	}
	node := f.synced[filepath.Base(path)]
	for _, c := range f.pending {
		if c.name == filepath.Base(path) {
			node = c.to
		}
	}
	return node
}

func (m *model) Open(path string) (fs.File, error) {
	if m.folders[path] == nil {
		return nil, fs.ErrNotExist
	}
	return opened{}, nil
}

type opened struct{ fs.File }

func (opened) Close() error { return nil }

func (m *model) ReadDir(string) ([]fs.DirEntry, error) { return nil, errors.ErrUnsupported }

func (m *model) MkdirAll(path string, _ fs.FileMode) error {
	m.step()
	m.set(path, &inode{folder: true})
	m.folders[path] = &folder{synced: map[string]*inode{}}
	return nil
}

func (m *model) CreateTemp(in, pattern string) (File, error) {
	m.step()
	m.inodes++
	f := &modelFile{m, filepath.Join(in, strings.Replace(pattern, "*", fmt.Sprint(m.inodes), 1)), &inode{}}
	m.set(f.path, f.inode)
	return f, nil
}

func (m *model) Rename(from, to string) error {
	m.step()
	node := m.get(from)
	m.set(to, node)
	m.set(from, nil)
	return nil
}

func (m *model) Remove(path string) error {
	m.step()
	m.set(path, nil)
	return nil
}

func (m *model) Sync(path string) error {
	m.step()
	f := m.folders[path]
	for _, c := range f.pending {
		f.synced[c.name] = c.to
	}
	f.pending = nil
	return nil
}

type modelFile struct {
	on    *model
	path  string
	inode *inode
}

func (f *modelFile) Name() string { return f.path }

func (f *modelFile) Write(raw []byte) (int, error) {
	f.on.step()
	f.inode.written += string(raw)
	return len(raw), nil
}

func (f *modelFile) Sync() error  { f.on.step(); f.inode.synced = f.inode.written; return nil }
func (f *modelFile) Close() error { f.on.step(); return nil }

// lost returns the possible contents of a file after a power cut: each prefix of the unsynced
// content, with each prefix of the changes of the folders on its path. "" means that the file does
// not exist.
func (m *model) lost(path string) []string {
	out := map[string]bool{}
	var walk func(at string, rest []string)
	walk = func(at string, rest []string) {
		f := m.folders[at]
		for n := range len(f.pending) + 1 {
			names := maps.Clone(f.synced)
			for _, c := range f.pending[:n] {
				names[c.name] = c.to
			}
			switch node := names[rest[0]]; {
			case node == nil:
				out[""] = true
			case len(rest) > 1:
				walk(filepath.Join(at, rest[0]), rest[1:])
			case node.synced == node.written:
				out[node.synced] = true
			default:
				for cut := range len(node.written) + 1 {
					out["part "+node.written[:cut]] = true
				}
			}
		}
	}
	walk("/", strings.Split(strings.Trim(path, "/"), "/"))
	return slices.Sorted(maps.Keys(out))
}

// TestStateFile_PowerCutLeavesTheOldContentOrTheNew cuts the power after each operation of a
// replacement, and checks all possible contents of the disk.
func TestStateFile_PowerCutLeavesTheOldContentOrTheNew(t *testing.T) {
	const path = "/state/cluster/identity.json"
	for _, first := range []bool{true, false} {
		before := func() *model {
			m := newModel()
			if !first {
				if err := replace(m, path, whole([]byte("old")), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return m
		}
		old := ""
		if !first {
			old = "old"
		}
		for stop := 0; ; stop++ {
			m := before()
			m.stop = stop
			done := func() (done bool) {
				defer func() {
					if v := recover(); v != nil && v != any(errCut) {
						panic(v)
					}
				}()
				if err := replace(m, path, whole([]byte("new")), 0o600); err != nil {
					t.Fatal(err)
				}
				return true
			}()
			left := m.lost(path)
			for _, text := range left {
				if text != old && text != "new" {
					t.Errorf("first write: %v, power cut after %d operations: the file may be %q, want old or new",
						first, stop, text)
				}
			}
			if done {
				if !slices.Equal(left, []string{"new"}) {
					t.Errorf("first write: %v: after the replacement has returned, a power cut may leave %q, want %q",
						first,
						left, []string{"new"})
				}
				break
			}
		}
	}
}

// Without the syncs, the test above must fail.
func TestStateFile_MissingSyncsAreFound(t *testing.T) {
	const path = "/state/identity.json"
	for what, on := range map[string]func(*model) Disk{
		"no sync of the file":   func(m *model) Disk { return unsynced{m, true, false} },
		"no sync of the folder": func(m *model) Disk { return unsynced{m, false, true} },
	} {
		m := newModel()
		if err := replace(m, path, whole([]byte("old")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := replace(on(m), path, whole([]byte("new")), 0o600); err != nil {
			t.Fatal(err)
		}
		if left := m.lost(path); slices.Equal(left, []string{"new"}) {
			t.Errorf("%s: nothing is lost, want the model to lose something", what)
		}
	}
}

// unsynced is a model without some syncs.
type unsynced struct {
	*model
	files, folders bool
}

func (u unsynced) Sync(path string) error {
	if u.folders {
		return nil
	}
	return u.model.Sync(path)
}

func (u unsynced) CreateTemp(in, pattern string) (File, error) {
	f, err := u.model.CreateTemp(in, pattern)
	if u.files {
		return unsyncedFile{f.(*modelFile)}, err
	}
	return f, err
}

type unsyncedFile struct{ *modelFile }

func (unsyncedFile) Sync() error { return nil }
