package status

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// FuzzDocument_DamagedFileIsReplaced checks that the writer replaces any status file by one with
// all current reports. Only transition times of a readable file are kept.
func FuzzDocument_DamagedFileIsReplaced(f *testing.F) {
	raw, err := os.ReadFile("testdata/status.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range [][]byte{raw, raw[:len(raw)/2], nil, []byte("null"), []byte(`{"objects":[null,{}]}`),
		[]byte(
			`{"objects":[{"kind":"Gateway","namespace":"default","name":"gw","status":{"conditions":[{"type":"Accepted","status":"True","lastTransitionTime":"2001-01-01T00:00:00Z"}]}}]}`), []byte(`{"objects":[{"status":{"conditions":[{"lastTransitionTime":"x"}]}}]}`)} {
		f.Add(s)
	}
	now := time.Unix(2_000_000_000, 0)
	owner := report.Ref{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: "default", Name: "gw"}
	board := NewBoard(nil)
	board.Replace(Translation,
		report.Report{
			Owner: owner, Conditions: []report.Condition{{Type: "Accepted", Status: report.True, Reason: "Accepted"}},
		})
	path := filepath.Join(f.TempDir(), FileName)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(WriterConfig{Board: board, Path: path, Controller: "c",
			Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(); err != nil {
			t.Fatal(err)
		}
		doc, err := Read(path)
		if err != nil || len(doc.Objects) != 1 || doc.Objects[0].Ref != owner ||
			len(doc.Objects[0].Status.Conditions) != 1 {
			t.Fatalf("got %v: %+v, want one object with one condition", err, doc)
		}
		c := doc.Objects[0].Status.Conditions[0]
		if at := c.LastTransitionTime; !at.Time.Equal(now) &&
			(!json.Valid(raw) || !bytes.Contains(raw, []byte("lastTransitionTime")) &&
				!bytes.Contains(bytes.ToLower(raw), []byte(`\u`))) {
			t.Errorf("since %v, want %v", at, now)
		}
	})
}
