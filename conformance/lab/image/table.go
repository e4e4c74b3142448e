package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Image is an entry of the table.
type Image struct {
	// Name is "registry/repository", optionally with ":tag" or "@digest". A name without a registry
	// stands for the repository in any registry.
	Name string `json:"name"`
	// Program is the absolute path on this machine. The image contains the program, and the
	// machine's /usr, /bin and /lib below a writable layer.
	Program string `json:"program"`
	// Path is the program's path in the image; empty means /usr/local/bin/ and the file's name.
	Path string `json:"path,omitempty"`
	// Args are the arguments if the container's spec has neither command nor args.
	Args []string `json:"args,omitempty"`
	// First are arguments before the container's args.
	First []string `json:"first,omitempty"`
	// User is the program's user ID unless the pod sets another ID; 0 is root.
	User int64 `json:"user,omitempty"`
	// Env are variables, "NAME=value", that the container may override.
	Env []string `json:"env,omitempty"`
}

// At returns the program's path in the container.
func (i Image) At() string {
	if i.Path != "" {
		return i.Path
	}
	return "/usr/local/bin/" + filepath.Base(i.Program)
}

// Table is the file with a lab's images.
type Table struct{ file string }

// Open returns the table in a file, which need not exist yet.
func Open(file string) *Table { return &Table{file: file} }

// List returns all images in the order in which they were loaded.
func (t *Table) List() ([]Image, error) {
	raw, err := os.ReadFile(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	var list []Image
	if err := yaml.UnmarshalStrict(raw, &list); err != nil {
		return nil, fmt.Errorf("images: %s: %w", t.file, err)
	}
	return list, nil
}

// Load adds images, and replaces images of the same name. A missing program is an error.
func (t *Table) Load(images ...Image) error {
	list, err := t.List()
	if err != nil {
		return err
	}
	for _, i := range images {
		if i.Program, err = filepath.Abs(i.Program); err != nil {
			return fmt.Errorf("image %s: %w", i.Name, err)
		}
		if info, err := os.Stat(i.Program); err != nil {
			return fmt.Errorf("image %s: %w", i.Name, err)
		} else if info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("image %s: %s is not a program", i.Name, i.Program)
		}
		list = append(slices.DeleteFunc(list, func(old Image) bool { return old.Name == i.Name }), i)
	}
	raw, err := yaml.Marshal(list)
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	// Rename is atomic: readers see the old or the new table.
	if err := os.WriteFile(t.file+".new", raw, 0o644); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	if err := os.Rename(t.file+".new", t.file); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	return nil
}

// ErrUnknown means that the table has no program for an image.
var ErrUnknown = errors.New("no program of this machine stands for the image")

// Find returns the table's entry for the image in a pod's spec.
func (t *Table) Find(ref string) (Image, error) {
	list, err := t.List()
	if err != nil {
		return Image{}, err
	}
	best := -1
	for i, candidate := range list {
		if matches(candidate.Name, ref) && (best < 0 || len(candidate.Name) > len(list[best].Name)) {
			best = i
		}
	}
	if best < 0 {
		return Image{}, fmt.Errorf("%w %s: load one with lab load %s PROGRAM", ErrUnknown, ref, repository(ref))
	}
	return list[best], nil
}

func matches(name, ref string) bool {
	if name == ref {
		return true
	}
	if repository(name) == name { // name has no tag: it matches any tag
		ref = repository(ref)
	}
	return name == ref || strings.HasSuffix(ref, "/"+name)
}

func repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if colon := strings.LastIndexByte(ref, ':'); colon > strings.LastIndexByte(ref, '/') {
		ref = ref[:colon]
	}
	return ref
}
