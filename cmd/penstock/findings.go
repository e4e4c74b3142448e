package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/plane"
	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/discovery/status"
)

// printFindings prints each error and warning once, when it comes up, and says when it is mended.
func printFindings(ctx context.Context, board *status.Board, out io.Writer) error {
	var seen uint64
	told := map[string]bool{}
	for {
		now := map[string]bool{}
		for _, f := range status.NewDocument(board.List(), plane.Controller, nil, time.Time{}).Findings {
			if f.Severity == report.Info {
				continue
			}
			text := fmt.Sprintf("%s: %s", f.Severity, f)
			now[text] = true
			if !told[text] {
				fmt.Fprintln(out, text)
			}
		}
		if len(told) > 0 && len(now) == 0 {
			fmt.Fprintln(out, "all mended: no errors or warnings are left")
		}
		told = now
		next, err := board.Wait(ctx, seen)
		if err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		seen = next
	}
}
