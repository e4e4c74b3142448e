package endpoint

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxWaiting bounds the picks of one pool that wait for the end of a request.
const maxWaiting = 1024

// Slots are where picks of a pool wait until a request ends. The reports of ends come late: by the
// access log's interval, and by the way from peers. Without the wait, the next request of a client
// would find its pool full, or its server busy, after the request before it has ended.
type Slots struct {
	mu      sync.Mutex
	waiting []chan struct{} // the first waits longest
}

// Wait calls try, which reports whether a slot was found, each time that one may have become free.
// It returns when try has returned true, or when timeout or ctx is over. A slot that try does not
// take is passed on to the picks that wait behind this one. Wait returns false at once if
// maxWaiting picks wait already.
func (s *Slots) Wait(ctx context.Context, timeout time.Duration, try func() bool) bool {
	freed := make(chan struct{}, 1)
	s.mu.Lock()
	if len(s.waiting) >= maxWaiting {
		s.mu.Unlock()
		return false
	}
	s.waiting = append(s.waiting, freed)
	s.mu.Unlock()
	defer s.leave(freed)
	over := time.NewTimer(timeout)
	defer over.Stop()
	if try() { // a slot that became free before this pick waited frees none again
		return true
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-over.C:
			return try()
		case <-freed:
			if try() {
				return true
			}
			s.passOn(freed)
		}
	}
}

// passOn notifies the next pick behind one that is not notified yet.
func (s *Slots) passOn(from chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notifyFirst(s.waiting[slices.Index(s.waiting, from)+1:])
}

// leave removes a pick. One that was notified and found no slot, or needs it no more, passes the
// notification on.
func (s *Slots) leave(freed chan struct{}) {
	s.mu.Lock()
	for i, c := range s.waiting {
		if c == freed {
			s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	select {
	case <-freed:
		s.free()
	default:
	}
}

// free notifies the pick that waits longest and is not notified yet.
func (s *Slots) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	notifyFirst(s.waiting)
}

// notifyFirst notifies the first of picks that is not notified yet.
func notifyFirst(waiting []chan struct{}) {
	for _, c := range waiting {
		select {
		case c <- struct{}{}:
			return
		default:
		}
	}
}
