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

// calm is how long nothing new must be said before findings are printed: what holds for a moment between two steps of one
// change is not worth a line.
const calm = 200 * time.Millisecond

// printFindings prints each error and warning once, when it comes up, and says when it is mended.
func printFindings(ctx context.Context, board *status.Board, out io.Writer) error {
	var seen uint64
	told := map[string]bool{}
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
			if !told[text] {
				fmt.Fprintln(out, text)
			}
		}
		if len(told) > 0 && len(now) == 0 {
			fmt.Fprintln(out, "all mended: no errors or warnings are left")
		}
		told = now
	}
}

// settled waits until there is something new, and then until there is nothing more.
func settled(ctx context.Context, board *status.Board, seen uint64) (uint64, error) {
	next, err := board.Wait(ctx, seen)
	for err == nil {
		quiet, cancel := context.WithTimeout(ctx, calm)
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
