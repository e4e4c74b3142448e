package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/discovery/filesystem"
)

const (
	// maxFiles bounds the files of a Reader, and the names in one folder.
	maxFiles       = 100_000
	maxFolders     = 10_000
	maxFolderDepth = 32
)

var (
	errTooMany = fmt.Errorf("it has too many files: more than %d", maxFiles)
	errVisited = errors.New("it leads to a folder that is read already")
	// errDangling means that a symbolic link leads to no file. Objects that were read through the
	// link stay in use.
	errDangling = errors.New("the file that it leads to is not there")
)

type disk struct {
	filesystem.Disk
	ctx  context.Context // context of the current read; guarded by Reader.work
	most int
	read func(path string) ([]byte, error)

	moved atomic.Int64 // when an operation last began or ended, in nanoseconds since 1970
}

func newDisk() *disk {
	return &disk{ctx: context.Background(), most: maxFiles, read: readRegular}
}

func readRegular(path string) ([]byte, error) { return filesystem.ReadRegular(path, maxFile) }

func bounded[T any](d *disk, path string, operation func() (T, error)) (out T, err error) {
	d.moved.Store(time.Now().UnixNano())
	defer func() { d.moved.Store(time.Now().UnixNano()) }()
	return filesystem.Do(d.ctx, &d.Disk, path, operation)
}

func (d *disk) stat(path string) (fs.FileInfo, error) {
	return bounded(d, path, func() (fs.FileInfo, error) { return os.Stat(path) })
}

func (d *disk) lstat(path string) (fs.FileInfo, error) {
	return bounded(d, path, func() (fs.FileInfo, error) { return os.Lstat(path) })
}

func (d *disk) isLink(path string) bool {
	info, err := d.lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

func (d *disk) readFile(path string) ([]byte, error) {
	return bounded(d, path, func() ([]byte, error) { return d.read(path) })
}

func (d *disk) readFolder(path string) ([]fs.DirEntry, error) {
	return bounded(d, path, func() (out []fs.DirEntry, err error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		for {
			some, err := f.ReadDir(1024)
			out = append(out, some...)
			switch {
			case len(out) > d.most:
				return nil, errTooMany
			case len(some) == 0 || err != nil:
				slices.SortFunc(out, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
				if errors.Is(err, io.EOF) {
					err = nil
				}
				return out, err
			}
		}
	})
}

type identity struct{ device, inode uint64 }

func identityOf(info fs.FileInfo) identity {
	s := info.Sys().(*syscall.Stat_t)
	return identity{uint64(s.Dev), s.Ino} // the types of these fields differ between systems
}

// tree walks a folder. It follows symbolic links, because mounted ConfigMaps consist of links. It
// enters no folder twice, and no kernel file system such as /proc. It skips names that start with a
// dot: the files of editors, and the folders to which a ConfigMap's links lead.
type tree struct {
	*disk
	file   func(path string, link bool)
	folder func(path string)
	fail   func(path string, err error)

	entered map[identity]bool
	files   int
}

func (t *tree) walk(path string, depth int) {
	info, err := t.stat(path)
	if err != nil {
		t.fail(path, err)
		return
	}
	switch id := identityOf(info); {
	case t.entered[id]:
		t.fail(path, errVisited)
		return
	case len(t.entered) >= maxFolders:
		t.fail(path, fmt.Errorf("there are more than %d folders", maxFolders))
		return
	default:
		t.entered[id] = true
	}
	kernel, err := bounded(t.disk, path, func() (string, error) { return kernelFileSystem(path) })
	if err == nil && kernel != "" {
		err = fmt.Errorf("it is on %s, a file system of the kernel, which has no configuration", kernel)
	}
	if err != nil {
		t.fail(path, err)
		return
	}
	if t.folder != nil {
		t.folder(path)
	}
	entries, err := t.readFolder(path)
	if err != nil {
		t.fail(path, err)
		return
	}
	var links []string // walked last, so that a file that has a path without links gets that path
	for _, e := range entries {
		at, link := filepath.Join(path, e.Name()), e.Type()&fs.ModeSymlink != 0
		isFolder := e.IsDir()
		switch {
		case hidden(e.Name()):
			continue
		case link:
			if info, err := t.stat(at); err == nil {
				isFolder = info.IsDir()
			}
		}
		switch {
		case isFolder && depth >= maxFolderDepth:
			t.fail(at, fmt.Errorf("it is more than %d folders deep", maxFolderDepth))
		case isFolder && link:
			links = append(links, at)
		case isFolder:
			t.walk(at, depth+1)
		case readable(e.Name()):
			if t.files++; t.files > t.most {
				t.fail(path, errTooMany)
				return
			}
			if t.file != nil {
				t.file(at, link)
			}
		}
	}
	for _, at := range links {
		t.walk(at, depth+1)
	}
}
