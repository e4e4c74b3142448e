package file

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// stateFile is a journal in Config.StateDir with a line of JSON for each change. The last line
// about an object is valid. It is one file, because some file systems take seconds to create
// thousands of files. Its mode is 0600, because it contains Secrets.
const stateFile = "last-good.jsonl"

// The journal is rewritten when its size exceeds maxWaste plus four times its size after the last
// rewrite.
const maxWaste = 1 << 20

type record struct {
	Ref    report.Ref      `json:"ref"`
	Path   string          `json:"path,omitempty"`   // absolute path of the object's file
	Object json.RawMessage `json:"object,omitempty"` // absent if the object is gone
	// Former are the former targets of an AccessPolicy. Without an object, they are the targets of
	// a closed policy.
	Former []v1alpha1.FormerTarget `json:"former,omitempty"`
}

type journal struct {
	path    string
	written bool // this process has written the whole file, so the last line is complete
	size    int  // size in bytes, including outdated lines
	live    int  // size in bytes after the last rewrite
	outcome statefile.Outcome
}

func (r *Reader) restore() {
	if r.cfg.StateDir == "" {
		return
	}
	path := filepath.Join(r.cfg.StateDir, stateFile)
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the file may be intact, and must not be replaced
		r.cfg.Log.Error("cannot read the last good versions of objects; none is written until the next start",
			"file", path, "error", err)
		return
	}
	r.journal.path = path
	var dropped error
	r.mu.Lock()
	defer r.mu.Unlock()
	r.former = map[report.Ref][]v1alpha1.FormerTarget{}
	decided := map[report.Ref]bool{}
	// The newest line about an object comes first. If it is damaged, the previous line applies.
	for _, line := range slices.Backward(slices.Collect(bytes.Lines(raw))) {
		var rec record
		if err := json.Unmarshal(line, &rec); err != nil {
			dropped = err
			continue
		}
		path, ours := r.asGiven(rec.Path)
		if decided[rec.Ref] {
			continue
		}
		if rec.Object != nil {
			g, err := r.decodeForm(rec.Object)
			if err == nil && g.ref() != rec.Ref {
				err = fmt.Errorf("its form describes %s", g.ref())
			}
			if err != nil {
				dropped = fmt.Errorf("%s: %w", rec.Ref, err)
				continue
			}
			g.obj = nil // saves memory, because few restored objects are used
			if ours {
				r.kept[rec.Ref] = keptObject{g, path}
			}
		}
		if ours && rec.Former != nil {
			r.former[rec.Ref] = rec.Former
		}
		decided[rec.Ref] = true
	}
	if dropped != nil {
		r.cfg.Log.Warn(
			"the last good versions of some objects were lost: their file is damaged. Objects whose present version "+
				"is invalid are served without them, see penstock status", "file", r.journal.path, "error", dropped)
	}
}

// asGiven converts an absolute path to a path below a root as the user gave it; false: the path is
// below no root.
func (r *Reader) asGiven(abs string) (string, bool) {
	for _, root := range r.roots {
		if rel, err := filepath.Rel(root.abs, abs); err == nil && abs != "" && filepath.IsLocal(rel) {
			return filepath.Join(root.path, rel), true
		}
	}
	return "", false
}

func (r *Reader) decodeForm(form []byte) (*good, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(form, &meta); err != nil {
		return nil, err
	}
	k, _, exact := r.catalog.find(meta.APIVersion, meta.Kind)
	if !exact {
		return nil, fmt.Errorf("kind %s %s is not supported any more", meta.APIVersion, meta.Kind)
	}
	obj := k.table.New()
	if err := json.Unmarshal(form, obj); err != nil {
		return nil, err
	}
	return &good{kind: k, obj: k.table.Pack(obj), raw: form}, nil
}

// persist writes the forms of changed objects to the state file. After an error, the next call
// writes all forms.
func (r *Reader) persist(dirty []report.Ref) {
	if r.journal.path == "" || len(dirty) == 0 && !r.journal.outcome.Failed() {
		return
	}
	err := r.write(dirty)
	if err != nil {
		r.journal.written = false
	}
	r.journal.outcome.Log(r.cfg.Log, r.journal.path, "last good versions of objects that are invalid then", err)
}

// write rewrites the whole journal at the first call in a process, and later when it has too many
// outdated lines (maxWaste). Otherwise it appends lines.
func (r *Reader) write(dirty []report.Ref) error {
	var lines bytes.Buffer
	rewrite := !r.journal.written
	if !rewrite {
		if err := r.records(&lines, dirty); err != nil {
			return fmt.Errorf("state of the configuration: %w", err)
		}
		rewrite = r.journal.size+lines.Len() > 4*r.journal.live+maxWaste
	}
	var err error
	if rewrite {
		err = r.rewrite()
	} else {
		err = appendTo(r.journal.path, lines.Bytes())
		r.journal.size += lines.Len()
	}
	if err != nil {
		return fmt.Errorf("state of the configuration: %w", err)
	}
	return nil
}

func (r *Reader) records(to io.Writer, refs []report.Ref) error {
	enc := json.NewEncoder(to)
	for _, ref := range refs {
		rec := record{Ref: ref}
		if k, ok := r.keptOf(ref); ok {
			form, err := k.form()
			if err != nil {
				return err
			}
			rec.Path, rec.Object = k.path, form
		} else if list := r.claims[ref]; len(list) > 0 {
			rec.Path = list[0].path
		}
		if rec.Path != "" {
			abs, err := filepath.Abs(rec.Path)
			if err != nil {
				return err
			}
			rec.Path, rec.Former = abs, r.former[ref]
		}
		if err := enc.Encode(rec); err != nil {
			return err
		}
	}
	return nil
}

// rewrite replaces the state file by a file without outdated lines, and syncs it. Appended lines
// are not synced, because restore drops incomplete lines after a power cut.
func (r *Reader) rewrite() error {
	size := 0
	err := statefile.ReplaceBy(r.journal.path, func(f io.Writer) error {
		lines := bufio.NewWriterSize(f, 1<<16)
		if err := r.records(io.MultiWriter(lines, (*counter)(&size)), r.persistedRefs()); err != nil {
			return err
		}
		return lines.Flush()
	})
	if err != nil {
		return err
	}
	r.journal.written, r.journal.size, r.journal.live = true, size, size
	return nil
}

type counter int

func (n *counter) Write(p []byte) (int, error) { *n += counter(len(p)); return len(p), nil }

func appendTo(path string, lines []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(lines)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
