package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// One member can cause hundreds of findings. The log has the first printedAtOnce, and the number of
// the others.
func TestFindings_ManyAtOnceAreCounted(t *testing.T) {
	board := status.NewBoard(nil)
	var reports []report.Report
	for n := range printedAtOnce + 7 {
		owner := report.Ref{Kind: "InferencePoolImport", Namespace: "default", Name: fmt.Sprintf("pool-%03d", n)}
		reports = append(reports,
			report.Report{
				Owner: owner, Findings: []report.Finding{{Severity: report.Warning, Owner: owner, Problem: "is odd"}},
			})
	}
	board.Set(status.Imports, reports...)
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = in.CloseWithError(printFindings(ctx, board, in)) }()
	text := make([]byte, 0, 1<<16)
	for !strings.Contains(string(text), "penstock status") {
		chunk := make([]byte, 4096)
		n, err := out.Read(chunk)
		if err != nil {
			t.Fatalf("%v after %s", err, text)
		}
		text = append(text, chunk[:n]...)
	}
	if n := strings.Count(string(text), "warning: InferencePoolImport default/pool-"); n != printedAtOnce ||
		!strings.Contains(string(text), "and 7 errors and warnings more") {
		t.Errorf("%d of %d findings, then %q, want %d, then 7 more", n, len(reports), text[max(0, len(text)-100):],
			printedAtOnce)
	}
}
