package pipeline

import (
	"sync"
	"sync/atomic"
	"time"
)

// StuckAfter is how long a change may take in translation or delivery without computing a row. A
// slow translation of many objects still computes rows all the time.
const StuckAfter = 30 * time.Second

type watchdog struct {
	rows  func() uint64
	stuck atomic.Bool
}

func (w *watchdog) begin() (end func()) {
	watch := &watch{dog: w, seen: w.rows()}
	watch.mu.Lock()
	defer watch.mu.Unlock()
	watch.timer = time.AfterFunc(StuckAfter, watch.check)
	return watch.end
}

type watch struct {
	dog *watchdog

	mu    sync.Mutex
	timer *time.Timer
	seen  uint64
	ended bool
}

func (w *watch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	rows := w.dog.rows()
	w.dog.stuck.Store(rows == w.seen)
	w.seen = rows
	w.timer.Reset(StuckAfter)
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
	w.dog.stuck.Store(false)
}
