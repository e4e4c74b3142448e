package kube

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
)

const (
	// debounceWindow is how long after a commit further events are debounced. A later event is
	// committed at once.
	debounceWindow = 5 * time.Millisecond
	debounceQuiet  = 2 * time.Millisecond
)

type feed struct {
	store   *store.Store
	changed chan struct{}

	mu   sync.Mutex
	open bool
	ops  []store.Op
}

func newFeed(s *store.Store) *feed { return &feed{store: s, changed: make(chan struct{}, 1)} }

func (f *feed) add(ops ...store.Op) {
	if len(ops) == 0 {
		return
	}
	f.mu.Lock()
	f.ops = append(f.ops, ops...)
	open := f.open
	f.mu.Unlock()
	if open {
		f.notify()
	}
}

func (f *feed) notify() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *feed) start() error {
	f.mu.Lock()
	f.open = true
	f.mu.Unlock()
	return f.flush()
}

func (f *feed) flush() error {
	// Holding the lock during Apply keeps the operations of concurrent calls in order.
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open || len(f.ops) == 0 {
		return nil
	}
	ops := f.ops
	f.ops = nil
	_, err := f.store.Apply(ops...)
	return err
}

func (f *feed) run(ctx context.Context) error {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.changed:
		}
		if time.Since(last) < debounceWindow {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(debounceQuiet):
			}
		}
		if err := f.flush(); err != nil {
			return err
		}
		last = time.Now()
	}
}
