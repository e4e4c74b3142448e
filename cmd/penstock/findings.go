package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// findingsDebounce is how long the board must stay unchanged before findings are printed, so that a finding that exists only
// between two steps of one change is not printed.
const findingsDebounce = 200 * time.Millisecond

// printFindings prints each error and warning once, when it appears, and one line when all are resolved.
func printFindings(ctx context.Context, board *status.Board, out io.Writer) error {
	var seen uint64
	printed := map[string]bool{}
	for {
		next, err := settled(ctx, board, seen)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		seen = next
		now := map[string]bool{}
		for _, f := range status.NewDocument(board.List(), app.Controller, nil, time.Time{}).Findings {
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
	}
}

// settled waits for a change, and then until the board is unchanged for findingsDebounce.
func settled(ctx context.Context, board *status.Board, seen uint64) (uint64, error) {
	next, err := board.Wait(ctx, seen)
	for err == nil {
		quiet, cancel := context.WithTimeout(ctx, findingsDebounce)
		var more uint64
		more, err = board.Wait(quiet, next)
		cancel()
		if err != nil && ctx.Err() == nil {
			return next, nil
		}
		next = more
	}
	return seen, err
}
