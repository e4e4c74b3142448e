package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// printedAtOnce bounds how many findings are printed at once: a member of the cluster set can cause
// as many as it exports pools.
const printedAtOnce = 100

// printFindings prints errors and warnings once, when they appear, and one line when all are
// resolved.
func printFindings(ctx context.Context, board *status.Board, out io.Writer) error {
	printed := map[string]bool{}
	err := board.Stream(ctx, app.Controller, func(doc *status.Document) error {
		now, added := map[string]bool{}, 0
		for _, f := range doc.Findings {
			if f.Severity == report.Info {
				continue
			}
			text := fmt.Sprintf("%s: %s", f.Severity, f)
			if now[text] = true; printed[text] {
				continue
			}
			if added++; added <= printedAtOnce {
				fmt.Fprintln(out, text)
			}
		}
		if more := added - printedAtOnce; more > 0 {
			fmt.Fprintf(out, "and %d errors and warnings more: penstock status shows them\n", more)
		}
		if len(printed) > 0 && len(now) == 0 {
			fmt.Fprintln(out, "all errors and warnings are resolved")
		}
		printed = now
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// reasonPage is the path, in the repository, of the page that states what to do about a condition
// with this reason.
func reasonPage(reason string) string { return "docs/reference/findings.md#" + strings.ToLower(reason) }

// printReasons prints the page of each reason of a condition that indicates a problem.
func printReasons(out io.Writer, doc *status.Document) {
	for i, reason := range status.Reasons(doc) {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "What to do about %s: %s\n", reason, reasonPage(reason))
	}
}
