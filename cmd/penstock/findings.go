package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// printFindings prints each error and warning once, when it appears, and one line when all are resolved.
func printFindings(ctx context.Context, board *status.Board, out io.Writer) error {
	printed := map[string]bool{}
	err := board.Stream(ctx, app.Controller, func(doc *status.Document) error {
		now := map[string]bool{}
		for _, f := range doc.Findings {
			if f.Severity == report.Info {
				continue
			}
			text := fmt.Sprintf("%s: %s", f.Severity, f)
			now[text] = true
			if !printed[text] {
				fmt.Fprintln(out, text)
			}
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
