package fetch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Cached is a model in a cache.
type Cached struct {
	Name    string            // ORG/NAME
	Refs    map[string]string // revision -> commit
	Commits []string          // the commits that have a snapshot, sorted
	Bytes   int64
	Partial int64 // bytes of incomplete downloads
}

// Cached lists the models of a cache, sorted by name.
func (f *Fetcher) Cached() ([]Cached, error) {
	dirs, err := filepath.Glob(filepath.Join(f.cfg.Folder, "models--*"))
	if err != nil {
		return nil, err
	}
	var out []Cached
	for _, dir := range dirs {
		name := strings.ReplaceAll(strings.TrimPrefix(filepath.Base(dir), "models--"), "--", "/")
		if checkName(name) != nil {
			continue
		}
		c := Cached{Name: name, Refs: map[string]string{}}
		blobs, _ := filepath.Glob(filepath.Join(dir, "blobs", "*"))
		for _, path := range blobs {
			info, err := os.Lstat(path)
			switch {
			case err != nil || !info.Mode().IsRegular():
			case strings.HasSuffix(path, ".incomplete"):
				c.Partial += info.Size()
			default:
				c.Bytes += info.Size()
			}
		}
		commits, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
		for _, path := range commits {
			c.Commits = append(c.Commits, filepath.Base(path))
		}
		refs := filepath.Join(dir, "refs")
		_ = filepath.WalkDir(refs, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil
			}
			raw, err := os.ReadFile(path)
			if name, relErr := filepath.Rel(refs, path); errors.Join(err, relErr) == nil {
				c.Refs[filepath.ToSlash(name)] = strings.TrimSpace(string(raw))
			}
			return nil
		})
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Cached) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Remove removes a model with all its revisions, and returns its size. It fails while a process
// downloads the model.
func (f *Fetcher) Remove(name string) (bytes int64, err error) {
	repo, err := f.repository(&Source{Name: name})
	if err != nil {
		return 0, err
	}
	all, err := f.Cached()
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(all, func(c Cached) bool { return c.Name == name })
	if i < 0 {
		return 0, wrong("name", "write one of the names that penstock models prints", "the model %s is not there", name)
	}
	locks, err := filepath.Glob(filepath.Join(repo.locks, "*.lock"))
	if err != nil {
		return 0, err
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, path := range locks {
		unlock, err := lockFile(now, path)
		if errors.Is(err, context.Canceled) {
			return 0, wrong("name", "wait for its end", "a process downloads the model %s", name)
		}
		if err != nil {
			return 0, err
		}
		defer unlock()
	}
	return all[i].Bytes + all[i].Partial, errors.Join(os.RemoveAll(repo.dir), os.RemoveAll(repo.locks))
}

// Folder returns the cache folder of Hugging Face's own programs.
func Folder(getenv func(string) string) (string, error) {
	if dir := getenv("HF_HUB_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := home(getenv)
	return filepath.Join(home, "hub"), err
}

func home(getenv func(string) string) (string, error) {
	if dir := getenv("HF_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Abs(filepath.Join(dir, "huggingface"))
	}
	if getenv("HOME") == "" {
		return "", errors.New("no folder for models: set HF_HUB_CACHE")
	}
	return filepath.Join(getenv("HOME"), ".cache", "huggingface"), nil
}

// Parse parses a source of the form hf:ORG/NAME[@REVISION][:FILE].
func Parse(text string) (Source, error) {
	const fix = "write hf:ORG/NAME, hf:ORG/NAME@REVISION or hf:ORG/NAME:FILE"
	rest, ok := strings.CutPrefix(text, "hf:")
	if !ok {
		return Source{}, wrong("name", fix, "%q is no model of Hugging Face", text)
	}
	var s Source
	rest, s.File, ok = strings.Cut(rest, ":")
	if ok && s.File == "" {
		return s, wrong("file", fix, "%q has no file", text)
	}
	s.Name, s.Revision, ok = strings.Cut(rest, "@")
	if ok && s.Revision == "" {
		return s, wrong("version", fix, "%q has no revision", text)
	}
	return s, checkName(s.Name)
}
