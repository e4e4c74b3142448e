package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

// maxLines is the number of lines that wait for a terminal. When 200 deployments start at once,
// each has several.
const maxLines = 4096

// lineQueue has lines for a terminal, whose user may have paused it. Nothing waits for the
// terminal, so lines beyond maxLines are counted instead of kept.
type lineQueue struct {
	more chan struct{}

	mu      sync.Mutex
	lines   []string
	dropped int
}

func newLineQueue() *lineQueue { return &lineQueue{more: make(chan struct{}, 1)} }

func (q *lineQueue) add(line string) {
	q.mu.Lock()
	if len(q.lines) < maxLines {
		q.lines = append(q.lines, line)
	} else {
		q.dropped++
	}
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take returns the lines that wait, with one about lines that are lost.
func (q *lineQueue) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := q.lines
	if q.dropped > 0 {
		lines = append(lines, fmt.Sprintf("%d further lines are not shown, because the terminal was paused: see "+
			"penstock status", q.dropped))
	}
	q.lines, q.dropped = nil, 0
	return lines
}

// print writes lines until ctx ends.
func (q *lineQueue) print(ctx context.Context, out io.Writer) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.more:
		}
		if lines := q.take(); len(lines) > 0 {
			fmt.Fprintln(out, strings.Join(lines, "\n"))
		}
	}
}
