package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/discovery/statefile"
)

// inode is the content of a file. A power cut keeps at least the synced part.
type inode struct {
	data   []byte
	synced int
}

// disk is a node's disk. Names and inodes are separate, as in file systems.
type disk struct {
	mu    sync.Mutex
	names map[string]*inode // as processes read them
	kept  map[string]*inode // names that survive a power cut
	files int

	full    bool // the disk is full, so writes fail
	lying   bool // Sync of a folder reports success without effect
	lied    bool // lying was true at some time
	forgets bool // Sync never has an effect, which the simulation must detect
}

func newDisk() *disk { return &disk{names: map[string]*inode{}, kept: map[string]*inode{}} }

// cutPower replaces the disk's content by one of the contents that a power cut may leave.
func (d *disk) cutPower(draw func(n int, what string) int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := map[string]*inode{}
	all := maps.Clone(d.names)
	maps.Copy(all, d.kept)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		file, kept := d.names[name], d.kept[name]
		if file != kept && draw(2, "name "+name) == 0 {
			file = kept
		}
		if file == nil {
			continue
		}
		n := file.synced
		if n < len(file.data) {
			n += draw(len(file.data)-n+1, "data "+name)
		}
		after[name] = &inode{slices.Clone(file.data[:n]), n}
	}
	d.names, d.kept = after, maps.Clone(after)
}

// snapshot returns a copy of the files as processes see them.
func (d *disk) snapshot() map[string]*inode {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]*inode{}
	for name, file := range d.names {
		out[name] = &inode{slices.Clone(file.data), len(file.data)}
	}
	return out
}

// restore restores a backup's files.
func (d *disk) restore(backup map[string]*inode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, file := range backup {
		file = &inode{slices.Clone(file.data), len(file.data)}
		d.names[name], d.kept[name] = file, file
	}
}

// lose removes the files whose names have a prefix.
func (d *disk) lose(prefix string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, list := range []map[string]*inode{d.names, d.kept} {
		maps.DeleteFunc(list, func(name string, _ *inode) bool { return strings.HasPrefix(name, prefix) })
	}
}

var errDead = errors.New("the process has ended")

// mount is one process's access to a disk. It implements statefile.Disk.
type mount struct {
	*disk
	dead bool
}

func (m *mount) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

// use locks the disk for one operation.
func (m *mount) use() (unlock func(), err error) {
	m.mu.Lock()
	if m.dead {
		err = errDead
	}
	return m.mu.Unlock, err
}

func (m *mount) Open(name string) (fs.File, error) {
	unlock, err := m.use()
	defer unlock()
	if err != nil {
		return nil, err
	}
	file := m.names[name]
	if file == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &reading{bytes.NewReader(slices.Clone(file.data)), info{path.Base(name), len(file.data)}}, nil
}

func (m *mount) ReadDir(folder string) (out []fs.DirEntry, err error) {
	unlock, err := m.use()
	defer unlock()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		if path.Dir(name) == folder {
			out = append(out, info{path.Base(name), len(m.names[name].data)})
		}
	}
	if len(out) == 0 {
		return nil, &fs.PathError{Op: "readdir", Path: folder, Err: fs.ErrNotExist}
	}
	return out, nil
}

func (m *mount) MkdirAll(string, fs.FileMode) error { return nil }

func (m *mount) CreateTemp(folder, pattern string) (statefile.File, error) {
	unlock, err := m.use()
	defer unlock()
	if err != nil {
		return nil, err
	}
	m.files++
	name := path.Join(folder, strings.Replace(pattern, "*", fmt.Sprint(m.files), 1))
	m.names[name] = &inode{}
	return &writing{m, name, m.names[name]}, nil
}

func (m *mount) Rename(from, to string) error {
	unlock, err := m.use()
	defer unlock()
	if err != nil {
		return err
	}
	m.names[to] = m.names[from]
	delete(m.names, from)
	return nil
}

func (m *mount) Remove(name string) error {
	unlock, err := m.use()
	defer unlock()
	if err != nil {
		return err
	}
	if m.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(m.names, name)
	return nil
}

func (m *mount) Sync(folder string) error {
	unlock, err := m.use()
	defer unlock()
	if err != nil {
		return err
	}
	if m.forgets {
		return nil
	}
	if m.lying {
		m.lied = true
		return nil
	}
	maps.DeleteFunc(m.kept, func(name string, _ *inode) bool {
		return path.Dir(name) == folder && m.names[name] == nil
	})
	for name, file := range m.names {
		if path.Dir(name) == folder {
			m.kept[name] = file
		}
	}
	return nil
}

type writing struct {
	m    *mount
	name string
	file *inode
}

func (w *writing) Name() string { return w.name }
func (w *writing) Close() error { return nil }

func (w *writing) Write(raw []byte) (int, error) {
	unlock, err := w.m.use()
	defer unlock()
	if err != nil {
		return 0, err
	}
	if w.m.full {
		w.file.data = append(w.file.data, raw[:len(raw)/2]...)
		return len(raw) / 2, syscall.ENOSPC
	}
	w.file.data = append(w.file.data, raw...)
	return len(raw), nil
}

func (w *writing) Sync() error {
	unlock, err := w.m.use()
	defer unlock()
	if err == nil {
		w.file.synced = len(w.file.data)
	}
	return err
}

type reading struct {
	*bytes.Reader
	info
}

func (r *reading) Stat() (fs.FileInfo, error) { return r.info, nil }
func (r *reading) Close() error               { return nil }
func (r *reading) Size() int64                { return r.info.Size() }

type info struct {
	name string
	size int
}

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return int64(i.size) }
func (i info) Mode() fs.FileMode          { return 0o600 }
func (i info) Type() fs.FileMode          { return 0 }
func (i info) ModTime() time.Time         { return time.Time{} }
func (i info) IsDir() bool                { return false }
func (i info) Sys() any                   { return nil }
func (i info) Info() (fs.FileInfo, error) { return i, nil }
