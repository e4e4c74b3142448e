package file

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// FuzzJournal_GoodLinesSurvive checks that each good line of a journal is restored as written,
// unless a later good line replaces it, whatever text is between the lines. The restored object
// must be the object that its line names.
func FuzzJournal_GoodLinesSurvive(f *testing.F) {
	folder := f.TempDir()
	config := filepath.Join(folder, "config")
	good := map[report.Ref]string{}
	var lines [][]byte
	for _, name := range []string{"a", "b"} {
		ref := report.Ref{Kind: "Service", Namespace: "default", Name: name}
		good[ref] = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"` + name +
			`","namespace":"default"},"spec":{"ports":[{"port":80}]}}`
		line, err := json.Marshal(record{Ref: ref, Path: filepath.Join(config, name+".yaml"),
			Object: json.RawMessage(good[ref])})
		if err != nil {
			f.Fatal(err)
		}
		lines = append(lines, append(line, '\n'))
	}
	for _, s := range []string{
		"", "\n", "{", `{"ref":1}`, "\x00\x00\x00", `null`, `[]`, string(lines[0][:40]),
		string(bytes.Replace(lines[0], []byte(`"name":"a"`), []byte(`"name":"b"`), 1)),
		`{"ref":{"kind":"Service","namespace":"default","name":"c"},"path":` + quoted(config+"/c.yaml") +
			`,"object":{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"default"}}}`,
		`{"ref":{"kind":"Service","namespace":"default","name":"d"},"path":` + quoted(config+"/d.yaml") +
			`,"object":{"apiVersion":"v1","kind":"Service"}}`,
		`{"ref":{"kind":"Service","namespace":"default","name":"a"}}`,
	} {
		f.Add([]byte(s), uint8(1))
	}
	f.Fuzz(func(t *testing.T, junk []byte, at uint8) {
		before := int(at) % (len(lines) + 1)
		raw := bytes.Join(lines[:before], nil)
		raw = append(append(raw, junk...), '\n')
		raw = append(raw, bytes.Join(lines[before:], nil)...)
		if err := os.WriteFile(filepath.Join(folder, stateFile), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := New(Config{Paths: []string{config}, Store: store.New(), StateDir: folder,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		r.restore()
		replaced := map[report.Ref]bool{}
		for line := range bytes.Lines(junk) {
			var rec record
			var object struct {
				Metadata struct{ Name, Namespace string }
			}
			if json.Unmarshal(line, &rec) == nil &&
				(rec.Object == nil || json.Unmarshal(rec.Object, &object) != nil ||
					object.Metadata.Name == rec.Ref.Name) {
				replaced[rec.Ref] = true
			}
		}
		for ref, form := range good {
			if k, ok := r.kept[ref]; !replaced[ref] && (!ok || string(k.raw) != form) {
				t.Errorf("%s is lost", ref)
			}
		}
		for ref, k := range r.kept {
			if k.obj != nil {
				t.Errorf("%s is in memory before it is used", ref)
			}
			if got := k.ref(); got != ref {
				t.Errorf("%s stands for %s, want itself", got, ref)
			}
		}
	})
}

func quoted(s string) string {
	raw, _ := json.Marshal(s) // never fails
	return string(raw)
}
