package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// paused is a terminal whose writes block until it is resumed.
type paused struct {
	io.Writer
	resume chan struct{}
}

func (p paused) Write(b []byte) (int, error) {
	<-p.resume
	return p.Writer.Write(b)
}

func TestLines_APausedTerminalShowsAllOrTheirNumber(t *testing.T) {
	for _, c := range []struct {
		lines, shown int
		last         string
	}{
		{200, 200, "line 199"},
		{maxLines + 11, maxLines + 2, "10 further lines are not shown, because the terminal was paused: see penstock " +
			"status"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			terminal := paused{&out, make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			q := newLineQueue()
			done := make(chan error)
			go func() { done <- q.print(ctx, terminal) }()
			for i := range c.lines {
				q.add(fmt.Sprint("line ", i))
				if i == 0 {
					synctest.Wait() // the first line's Write has started, and blocks
				}
			}
			close(terminal.resume)
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimSpace(out.String()), "\n")
			if last := got[len(got)-1]; len(got) != c.shown || last != c.last {
				t.Errorf("%d lines of %d, the last one %q; want %d and %q", len(got), c.lines, last, c.shown, c.last)
			}
		})
	}
}
