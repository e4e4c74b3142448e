package kube

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
)

const (
	// burst is how soon after a commit another one tells of a burst.
	burst = 5 * time.Millisecond
	// gather is how long a commit waits in a burst for what comes with it.
	gather = 2 * time.Millisecond
)

// feed collects what arrives and applies it: at once when it was quiet, together in a burst.
type feed struct {
	store *store.Store
	wake  chan struct{}

	mu   sync.Mutex
	open bool // until then things are collected only
	ops  []store.Op
}

func newFeed(s *store.Store) *feed { return &feed{store: s, wake: make(chan struct{}, 1)} }

func (f *feed) add(ops ...store.Op) {
	if len(ops) == 0 {
		return
	}
	f.mu.Lock()
	f.ops = append(f.ops, ops...)
	open := f.open
	f.mu.Unlock()
	if open {
		f.poke()
	}
}

func (f *feed) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// start lets through what was collected, as one commit.
func (f *feed) start() error {
	f.mu.Lock()
	f.open = true
	f.mu.Unlock()
	return f.flush()
}

// flush applies what was collected.
func (f *feed) flush() error {
	// The lock is held while the store works, so that two that flush keep the order.
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

// run applies until ctx ends.
func (f *feed) run(ctx context.Context) error {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		}
		if time.Since(last) < burst {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(gather):
			}
		}
		if err := f.flush(); err != nil {
			return err
		}
		last = time.Now()
	}
}
