package file

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/report"
)

// saved is one state file: the last good forms of the objects of one configuration file, so that a change rewrites as
// much as was changed. Secrets are among them: only we may read it.
type saved struct {
	Path    string            `json:"path"` // absolute
	Objects []json.RawMessage `json:"objects"`
}

func (r *Reader) stateFolder() string { return filepath.Join(r.cfg.StateDir, "last-good") }

// recall reads the last good forms of an earlier run. State that cannot be read or understood is dropped: files are the
// truth, and this is only for those that are wrong just now.
func (r *Reader) recall() error {
	if r.cfg.StateDir == "" {
		return nil
	}
	if err := os.MkdirAll(r.stateFolder(), 0o700); err != nil {
		return fmt.Errorf("state of the configuration: %w", err)
	}
	entries, err := os.ReadDir(r.stateFolder())
	if err != nil {
		return fmt.Errorf("state of the configuration: %w", err)
	}
	for _, e := range entries {
		name := filepath.Join(r.stateFolder(), e.Name())
		if filepath.Ext(name) != ".json" {
			_ = os.Remove(name) // left by a run that ended while it wrote
			continue
		}
		var s saved
		raw, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(raw, &s)
		}
		path, ours := r.asGiven(s.Path)
		if err != nil || !ours {
			if err != nil {
				r.cfg.Log.Warn("dropping state that cannot be read", "file", name, "error", err)
			}
			continue
		}
		for _, form := range s.Objects {
			g, ref, err := r.revive(form)
			if err != nil {
				r.cfg.Log.Warn("dropping state of an object", "file", path, "error", err)
				continue
			}
			r.kept[ref] = keptObject{g, path}
			if r.keptBy[path] == nil {
				r.keptBy[path] = map[report.Ref]bool{}
			}
			r.keptBy[path][ref] = true
		}
	}
	return nil
}

// asGiven is the path that a root's user would write for an absolute one.
func (r *Reader) asGiven(abs string) (string, bool) {
	for _, root := range r.roots {
		if rel, err := filepath.Rel(root.abs, abs); err == nil && abs != "" && filepath.IsLocal(rel) {
			return filepath.Join(root.path, rel), true
		}
	}
	return "", false
}

func (r *Reader) revive(form []byte) (*good, report.Ref, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(form, &is); err != nil {
		return nil, report.Ref{}, err
	}
	k, _, exact := r.catalog.find(is.APIVersion, is.Kind)
	if !exact {
		return nil, report.Ref{}, fmt.Errorf("kind %s %s is not read any more", is.APIVersion, is.Kind)
	}
	typed := k.table.New()
	if err := json.Unmarshal(form, typed); err != nil {
		return nil, report.Ref{}, err
	}
	ref := report.Ref{Group: k.table.Group(), Kind: is.Kind, Namespace: typed.GetNamespace(), Name: typed.GetName()}
	return &good{kind: k, obj: typed, form: form}, ref, nil
}

// remember writes the last good forms of files.
func (r *Reader) remember(paths map[string]bool) error {
	if r.cfg.StateDir == "" {
		return nil
	}
	for path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("state of the configuration: %w", err)
		}
		name := filepath.Join(r.stateFolder(), fmt.Sprintf("%x.json", sha256.Sum256([]byte(abs)))[:24]+".json")
		s := saved{Path: abs}
		for ref := range r.keptBy[path] {
			s.Objects = append(s.Objects, r.kept[ref].form)
		}
		if len(s.Objects) == 0 {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("state of the configuration: %w", err)
			}
			continue
		}
		slices.SortFunc(s.Objects, func(a, b json.RawMessage) int { return slices.Compare(a, b) })
		if err := writeState(name, s); err != nil {
			return fmt.Errorf("state of the configuration: %w", err)
		}
	}
	return nil
}

func writeState(name string, s saved) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "writing-*") // mode 0600
	if err != nil {
		return err
	}
	// Not synced to the disk: after a power cut a torn file is dropped by recall, and thousands of syncs would cost seconds.
	_, err = f.Write(raw)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
