package labtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Load sends requests during a test. No request may fail.
type Load struct {
	t            testing.TB
	ctx          context.Context
	stop         context.CancelFunc
	running      sync.WaitGroup
	sent, failed atomic.Int64
	first        atomic.Pointer[string]
}

const listed = 10

// NewLoad returns a Load without requests. The Load ends at the latest with the test.
func NewLoad(t testing.TB) *Load {
	l := &Load{t: t}
	l.ctx, l.stop = context.WithCancel(t.Context())
	t.Cleanup(l.wait)
	return l
}

func (l *Load) wait() {
	l.stop()
	l.running.Wait()
}

// Each calls ask repeatedly, with a pause after each call. what names the requests in errors.
func (l *Load) Each(what string, pause time.Duration, ask func(context.Context) error) {
	l.running.Go(func() {
		for l.ctx.Err() == nil {
			began := time.Now()
			if err := ask(context.WithoutCancel(l.ctx)); err != nil {
				text := fmt.Sprintf("%s, sent at %s, ended at %s: %v", what, began.Format("15:04:05.000"),
					time.Now().Format("15:04:05.000"), err)
				l.first.CompareAndSwap(nil, &text)
				if l.failed.Add(1) <= listed {
					l.t.Log("a request failed: " + text)
				}
			}
			l.sent.Add(1)
			select {
			case <-l.ctx.Done():
			case <-time.After(pause):
			}
		}
	})
}

// Goes waits until n more requests have ended, with or without an error.
func (l *Load) Goes(n int64) {
	l.t.Helper()
	from := l.sent.Load()
	Until(l.t, "requests go on", func(context.Context) error {
		if got := l.sent.Load() - from; got < n {
			return fmt.Errorf("%d requests, want %d", got, n)
		}
		return nil
	})
}

// Counts returns how many requests have ended, and how many requests failed.
func (l *Load) Counts() (ended, failed int64) { return l.sent.Load(), l.failed.Load() }

// First returns the first failure, or "".
func (l *Load) First() string {
	if text := l.first.Load(); text != nil {
		return *text
	}
	return ""
}

// Stop ends the Load once no request is in flight.
func (l *Load) Stop() { l.wait() }

// End calls Stop. It fails the test if a request has failed, or no request was sent.
func (l *Load) End() {
	l.t.Helper()
	l.wait()
	sent, failed := l.Counts()
	if failed > 0 || sent == 0 {
		l.t.Errorf("%d of %d requests failed, the first: %s", failed, sent, l.First())
		return
	}
	l.t.Logf("%d requests, none failed", sent)
}
