package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

type keyFolder struct{ paths []string }

type writtenKey struct {
	*file.Written
	object storedKey
}

func (k keyFolder) find() ([]writtenKey, error) {
	found, err := file.FindWritten(k.paths, v1alpha1.Group, store.APIKeys.Kind())
	if err != nil {
		return nil, err
	}
	out := make([]writtenKey, len(found))
	for i, w := range found {
		out[i] = writtenKey{w, writtenObject(w)}
	}
	return out, nil
}

func writtenObject(w *file.Written) (out storedKey) {
	raw, err := yaml.Marshal(w.Node)
	if err == nil {
		err = kyaml.Unmarshal(raw, &out.APIKey)
	}
	if err != nil {
		out = storedKey{problem: fmt.Errorf("%s:%d: APIKey %s cannot be decoded: %w", w.Path, w.Line, w.Name, err)}
		out.Name = w.Name
		if namespace := file.Field(file.Field(w.Node, "metadata"), "namespace"); namespace != nil {
			out.Namespace = namespace.Value
		}
		if hashes := file.Field(file.Field(w.Node, "spec"), "hashes"); hashes != nil {
			_ = hashes.Decode(&out.Spec.Hashes) // on error, there are no hashes
		}
	}
	out.Namespace = cmp.Or(out.Namespace, metav1.NamespaceDefault)
	return out
}

func (k keyFolder) list(context.Context) ([]storedKey, error) {
	found, err := k.find()
	if err != nil {
		return nil, err
	}
	out := make([]storedKey, len(found))
	for i := range found {
		out[i] = found[i].object
	}
	return out, nil
}

func (k keyFolder) named(namespace, name string) (*writtenKey, error) {
	found, err := k.find()
	if err != nil {
		return nil, err
	}
	for i := range found {
		if o := &found[i].object; o.Namespace == namespace && o.Name == name {
			return &found[i], o.problem
		}
	}
	return nil, nil
}

func (k keyFolder) create(_ context.Context, keys ...*v1alpha1.APIKey) (string, error) {
	folder, disk := k.paths[0], new(filesystem.Disk)
	if info, err := disk.Stat(folder); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("-f %s: name a folder: keys get a file of their own there", folder)
	}
	found, err := k.find()
	if err != nil {
		return "", err
	}
	for i := range found {
		w := &found[i]
		if slices.ContainsFunc(keys, func(key *v1alpha1.APIKey) bool {
			return key.Namespace == w.object.Namespace && key.Name == w.object.Name
		}) {
			return "", fmt.Errorf("%s:%d: APIKey %s/%s exists: rotate it, or choose another name", w.Path, w.Line,
				w.object.Namespace, w.object.Name)
		}
	}
	path := filepath.Join(folder, keysFile(keys)+".yaml")
	if _, err := disk.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s exists: rename it, or choose another name for the key", path)
	}
	var text bytes.Buffer
	for i, key := range keys {
		raw, err := kyaml.Marshal(key)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(bytes.Replace(raw, []byte("  creationTimestamp: null\n"), nil, 1))
	}
	// Hashes are no secret, and penstock may run as another user, who must read this file.
	return path, statefile.ReplaceReadable(path, text.Bytes())
}

// keysFile returns a new file's name without extension. For several keys, it ends in a hash of
// their names.
func keysFile(keys []*v1alpha1.APIKey) string {
	name := keys[0].Name
	if len(keys) > 1 {
		h := fnv.New32a()
		for _, key := range keys {
			_, _ = fmt.Fprintln(h, key.Name)
		}
		name = fmt.Sprintf("%08x", h.Sum32())
	}
	if namespace := keys[0].Namespace; namespace != metav1.NamespaceDefault {
		name = namespace + "-" + name
	}
	if len(keys) > 1 {
		return "apikeys-" + name
	}
	return "apikey-" + name
}

func (k keyFolder) change(_ context.Context, namespace, name string,
	change func(*v1alpha1.APIKeySpec) error) error {
	w, err := k.named(namespace, name)
	if err != nil {
		return err
	}
	if w == nil {
		return fmt.Errorf("there is no APIKey %s/%s in %s: penstock keys list shows all", namespace, name, k.paths[0])
	}
	if err := change(&w.object.Spec); err != nil {
		return err
	}
	spec := file.Field(w.Node, "spec")
	if spec == nil || spec.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: APIKey %s: spec: it is missing", w.Path, w.Line, w.Name)
	}
	hashes, err := node(w.object.Spec.Hashes)
	if err != nil {
		return err
	}
	file.SetField(spec, "hashes", hashes)
	if w.object.Spec.Disabled {
		disabled, err := node(true)
		if err != nil {
			return err
		}
		file.SetField(spec, "disabled", disabled)
	}
	return w.Save()
}
