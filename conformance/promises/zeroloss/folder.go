package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type folder struct {
	path  string
	files map[string]string
}

func newFolder(path string) (*folder, error) {
	return &folder{path: path, files: map[string]string{}}, os.MkdirAll(path, 0o755)
}

// update writes a file before the files that refer to it, and removes it after them. It chooses at
// random whether it replaces a file atomically or in place, and whether it pauses, so that one
// change becomes two revisions.
func (f *folder) update(files map[string]string, rng *rand.Rand) ([]string, error) {
	var did []string
	pause := func() {
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(5+rng.IntN(30)) * time.Millisecond)
		}
	}
	for _, name := range slices.SortedFunc(slices.Values(sortedKeys(files)), byRank) {
		if f.files[name] == files[name] {
			continue
		}
		how, write := "=", f.replace
		if rng.IntN(3) == 0 {
			how, write = "~", f.overwrite
		}
		if err := write(name, files[name]); err != nil {
			return did, fmt.Errorf("write configuration: %w", err)
		}
		f.files[name] = files[name]
		did = append(did, how+name)
		pause()
	}
	for _, name := range slices.SortedFunc(slices.Values(sortedKeys(f.files)),
		func(a, b string) int { return byRank(b, a) }) {
		if _, ok := files[name]; ok {
			continue
		}
		if err := os.Remove(filepath.Join(f.path, name)); err != nil {
			return did, fmt.Errorf("remove configuration: %w", err)
		}
		delete(f.files, name)
		did = append(did, "-"+name)
		pause()
	}
	return did, nil
}

func (f *folder) replace(name, text string) error {
	path := filepath.Join(f.path, name)
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+"~", path)
}

// overwrite saves a file as cp does: the file is empty for a moment.
func (f *folder) overwrite(name, text string) error {
	return os.WriteFile(filepath.Join(f.path, name), []byte(text), 0o600)
}

func byRank(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b)) }

func rank(name string) int {
	return slices.IndexFunc(order, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
