package statefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Disk has the file operations that replace a state file. Simulations implement it to inject
// faults.
type Disk interface {
	Open(path string) (fs.File, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	MkdirAll(path string, mode fs.FileMode) error
	// CreateTemp creates a uniquely named file of mode 0600, as os.CreateTemp does.
	CreateTemp(folder, pattern string) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	// Sync writes the names in a folder to the disk. Before Sync, a power cut may undo a Rename.
	Sync(folder string) error
}

// File is a file open for writing.
type File interface {
	io.WriteCloser
	Name() string
	Sync() error
}

// Machine is the Disk of this machine.
type Machine struct{}

// Open implements Disk.
func (Machine) Open(path string) (fs.File, error) { return os.Open(path) }

// ReadDir implements Disk.
func (Machine) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// MkdirAll implements Disk.
func (Machine) MkdirAll(path string, mode fs.FileMode) error { return os.MkdirAll(path, mode) }

// CreateTemp implements Disk.
func (Machine) CreateTemp(folder, pattern string) (File, error) {
	return os.CreateTemp(folder, pattern)
}

// Rename implements Disk.
func (Machine) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements Disk.
func (Machine) Remove(path string) error { return os.Remove(path) }

// Sync implements Disk. It ignores the error of a network file system that cannot sync a folder.
func (Machine) Sync(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Read returns the content of a file.
func Read(d Disk, path string) ([]byte, error) {
	f, err := d.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}
