package status

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
)

func TestWriter_FileIsAJSONDocumentWithIndents(t *testing.T) {
	o := Object{Ref: report.Ref{Kind: "HTTPRoute", Name: "a<b>"}}
	o.Status.Addresses = []Address{{Type: "IPAddress", Value: "10.0.0.1"}}
	f := report.Finding{Severity: report.Error, Problem: "two\nlines & more"}
	for n := range 3 {
		doc := &Document{Objects: []Object{}, Findings: []report.Finding{}}
		for range n {
			doc.Objects, doc.Findings = append(doc.Objects, o), append(doc.Findings, f)
		}
		var want bytes.Buffer
		whole := json.NewEncoder(&want)
		whole.SetEscapeHTML(false)
		whole.SetIndent("", "  ")
		if err := whole.Encode(doc); err != nil {
			t.Fatal(err)
		}
		if got, err := encode(doc); err != nil || string(got) != want.String() {
			t.Errorf("%v: %s\nwant %s", err, got, want.String())
		}
	}
}

// While thousands of objects arrive, the file must be written less often.
func TestWriter_LargeFileIsWrittenLessOften(t *testing.T) {
	w, err := NewWriter(WriterConfig{Board: NewBoard(nil), Path: filepath.Join(t.TempDir(), FileName)})
	if err != nil {
		t.Fatal(err)
	}
	for took, want := range map[time.Duration]time.Duration{
		0: 100 * time.Millisecond, 5 * time.Millisecond: 100 * time.Millisecond,
		60 * time.Millisecond: 540 * time.Millisecond, time.Second: 2 * time.Second,
	} {
		if got := w.delay(took); got != want {
			t.Errorf("after a write of %s the next one waits for %s, want %s", took, got, want)
		}
	}
}
