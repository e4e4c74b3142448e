package statefile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// disk is the operations of a replacement. A test stops after each of them.
type disk interface {
	isFolder(path string) bool
	mkdir(path string) error
	create(folder, pattern string) (file, error)
	rename(from, to string) error
	remove(path string) error
	syncFolder(path string) error
}

// file is an unfinished file.
type file interface {
	Name() string
	Write(raw []byte) (int, error)
	Chmod(mode fs.FileMode) error
	Sync() error
	Close() error
}

// system is the operating system's disk.
type system struct{}

func (system) isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (system) mkdir(path string) error                     { return os.Mkdir(path, 0o700) }
func (system) create(folder, pattern string) (file, error) { return os.CreateTemp(folder, pattern) }
func (system) rename(from, to string) error                { return os.Rename(from, to) }
func (system) remove(path string) error                    { return os.Remove(path) }

// syncFolder syncs the names in a folder. Some network file systems cannot, and keep names by themselves.
func (system) syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
