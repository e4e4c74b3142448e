package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type repository struct{ dir, locks string }

func (r *repository) blob(f file) string            { return filepath.Join(r.dir, "blobs", f.Hash) }
func (r *repository) snapshot(commit string) string { return filepath.Join(r.dir, "snapshots", commit) }
func (r *repository) listingFile(commit string) string {
	return filepath.Join(r.dir, ".penstock", commit+".json")
}

// hasBlob reports whether the cache has the complete blob of a file. A blob gets its name only
// after its hash was checked.
func (r *repository) hasBlob(f file) bool {
	info, err := os.Lstat(r.blob(f))
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
}

func (r *repository) partial(f file) int64 {
	info, err := os.Lstat(r.blob(f) + ".incomplete")
	if err != nil {
		return 0
	}
	return min(info.Size(), f.Size)
}

// lock waits until no other process downloads a blob, and then excludes other processes. The Python
// package huggingface_hub uses the same locks.
func (r *repository) lock(ctx context.Context, f file) (unlock func(), err error) {
	for _, dir := range []string{filepath.Join(r.dir, "blobs"), r.locks} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, disk(err)
		}
	}
	return lockFile(ctx, filepath.Join(r.locks, f.Hash+".lock"))
}

const lockPoll = 100 * time.Millisecond

func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, disk(err)
	}
	again := time.NewTicker(lockPoll)
	defer again.Stop()
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = file.Close()
			return nil, disk(err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, context.Cause(ctx)
		case <-again.C:
		}
	}
}

func (r *repository) link(commit string, f file) error {
	path := filepath.Join(r.snapshot(commit), filepath.FromSlash(f.Path))
	target := strings.Repeat("../", 2+strings.Count(f.Path, "/")) + "blobs/" + f.Hash
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + ".incomplete"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// local returns the model of a commit, if the cache has its listing and all its files.
func (r *repository) local(commit string, s Source) (Model, error) {
	raw, err := os.ReadFile(r.listingFile(commit))
	if err != nil {
		return Model{}, err
	}
	var l listing
	if err := json.Unmarshal(raw, &l); err != nil {
		return Model{}, err
	}
	chosen, path, err := choose(l.Files, s.File)
	if err != nil {
		return Model{}, err
	}
	for _, f := range chosen {
		if !r.hasBlob(f) {
			return Model{}, fmt.Errorf("file %s is absent", f.Path)
		}
		if err := r.link(commit, f); err != nil {
			return Model{}, err
		}
	}
	return Model{Commit: commit, Path: filepath.Join(r.snapshot(commit), filepath.FromSlash(path))}, nil
}

// offline returns the cached model if cause means that the registry cannot be reached. It returns
// false if the cache lacks the model.
func (r *repository) offline(s Source, cause error) (Model, bool) {
	var e *Error
	if !errors.As(cause, &e) || !e.unreachable {
		return Model{}, false
	}
	commit := s.Revision
	if !isCommit(commit) {
		raw, err := os.ReadFile(filepath.Join(r.dir, "refs", filepath.FromSlash(s.Revision)))
		if commit = strings.TrimSpace(string(raw)); err != nil || !isCommit(commit) {
			return Model{}, false
		}
	}
	m, err := r.local(commit, s)
	// Another program may have downloaded the model. It writes no listing.
	if errors.Is(err, fs.ErrNotExist) {
		m, err = r.found(commit, s)
	}
	m.Offline = true
	return m, err == nil
}

// found returns the model of a commit without a listing, from the files in its snapshot.
func (r *repository) found(commit string, s Source) (Model, error) {
	dir := r.snapshot(commit)
	var files []file
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			_, err = os.Stat(path) // fails for a link without its blob
		}
		files = append(files, file{Path: filepath.ToSlash(name)})
		return err
	})
	if err != nil {
		return Model{}, err
	}
	_, path, err := choose(files, s.File)
	return Model{Commit: commit, Path: filepath.Join(dir, filepath.FromSlash(path))}, err
}

func encode(l listing) ([]byte, error) { return json.Marshal(l) }

// replace replaces a file atomically.
func replace(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = out.Write(raw)
	err = errors.Join(err, out.Sync(), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		_ = os.Remove(out.Name())
	}
	return err
}

// Present reports whether a path exists. It follows links.
func Present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
