package status

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Feed tells one reader of which objects something else is said, however many objects there are. It holds nobody up.
type Feed struct {
	board *Board
	wake  chan struct{}

	mu   sync.Mutex
	refs map[report.Ref]struct{}
}

// Follow starts a feed, with every object of which something is said now.
func (b *Board) Follow() *Feed {
	f := &Feed{board: b, wake: make(chan struct{}, 1), refs: map[report.Ref]struct{}{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.feeds[f] = struct{}{}
	for _, reports := range b.sources {
		f.add(slices.Collect(maps.Keys(reports)))
	}
	return f
}

// feed tells all feeds. b.mu is held.
func (b *Board) feed(refs []report.Ref) {
	for f := range b.feeds {
		f.add(refs)
	}
}

func (f *Feed) add(refs []report.Ref) {
	if len(refs) == 0 {
		return
	}
	f.mu.Lock()
	for _, ref := range refs {
		f.refs[ref] = struct{}{}
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Next waits until something else is said of some objects and returns them, each once. It fails only with its context.
func (f *Feed) Next(ctx context.Context) ([]report.Ref, error) {
	for {
		var refs map[report.Ref]struct{}
		f.mu.Lock()
		if len(f.refs) > 0 {
			refs, f.refs = f.refs, map[report.Ref]struct{}{}
		}
		f.mu.Unlock()
		if len(refs) > 0 {
			return slices.SortedFunc(maps.Keys(refs), report.Ref.Compare), nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.wake:
		}
	}
}

// Close ends the feed.
func (f *Feed) Close() {
	f.board.mu.Lock()
	defer f.board.mu.Unlock()
	delete(f.board.feeds, f)
}
