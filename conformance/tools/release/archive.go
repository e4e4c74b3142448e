package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive; a name that ends in a slash is a folder.
type file struct {
	name string
	mode int64
	data []byte
}

// archive makes a tar. All its files belong to root and have the modification time at.
func archive(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{
			Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg,
			ModTime: at, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// compressed writes gzip without a name and a time in its header.
func compressed(files []file, at time.Time) ([]byte, error) {
	data, err := archive(files, at)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// tree reads all files below dir, sorted by name, with mode 0644. prefix precedes their names.
func tree(dir, prefix string) ([]file, error) {
	var out []file
	err := filepath.WalkDir(dir, func(place string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, place)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(place)
		out = append(out, file{path.Join(prefix, filepath.ToSlash(name)), 0o644, data})
		return err
	})
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return out, err
}
