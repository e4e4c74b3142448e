package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

// maxLines limits the queue. 200 deployments that start at once have several lines each.
const maxLines = 4096

// lineQueue buffers lines for a terminal, which the user may pause. Lines beyond maxLines are
// counted instead.
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
