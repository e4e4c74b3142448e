package endpoint

import (
	"context"
	"slices"
	"sync"
	"time"
)

const maxWaiting = 1024

// Slots lets picks of a pool wait until a server may take one more request. The end of a request is
// reported late, so a server that looks full may have room.
type Slots struct {
	mu      sync.Mutex
	waiting []chan struct{} // longest wait first
}

// Wait calls try whenever a request may have ended, until try returns true, or timeout or ctx ends.
// It returns false at once if maxWaiting picks already wait.
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
	if try() { // no notification covers the time before this pick waited
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

func (s *Slots) passOn(from chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notifyFirst(s.waiting[slices.Index(s.waiting, from)+1:])
}

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

func (s *Slots) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	notifyFirst(s.waiting)
}

func notifyFirst(waiting []chan struct{}) {
	for _, c := range waiting {
		select {
		case c <- struct{}{}:
			return
		default:
		}
	}
}
