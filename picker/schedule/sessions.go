package schedule

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// maxSessions bounds the sessions of a pool, of which each takes some 200 bytes. Of more, those that had no request for the longest
// time begin again.
const maxSessions = 1 << 16

// Sessions are the endpoints that a pool's sessions are at. The zero value is empty.
type Sessions struct {
	mu    sync.Mutex
	known map[uint64]*list.Element // by ID
	order list.List                // of *kept, the last used first
}

type kept struct {
	id uint64
	at netip.AddrPort
	on time.Time
}

// Find returns the endpoint that a session is at, if it had a request within ttl; zero otherwise.
func (s *Sessions) Find(id uint64, now time.Time, ttl time.Duration) (at netip.AddrPort) {
	if id == 0 {
		return at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[id]; e != nil && now.Sub(e.Value.(*kept).on) <= ttl {
		at = e.Value.(*kept).at
	}
	return at
}

// Keep records that a session has a request at an endpoint. It does nothing without an ID.
func (s *Sessions) Keep(id uint64, at netip.AddrPort, now time.Time, ttl time.Duration) {
	if id == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[id]; e != nil {
		*e.Value.(*kept) = kept{id, at, now}
		s.order.MoveToFront(e)
		return
	}
	if s.known == nil {
		s.known = map[uint64]*list.Element{}
	}
	s.known[id] = s.order.PushFront(&kept{id, at, now})
	for range 2 { // so many at most: one pick does not pay for all that have expired
		last := s.order.Back()
		if old := last.Value.(*kept); len(s.known) > maxSessions || now.Sub(old.on) > ttl {
			s.order.Remove(last)
			delete(s.known, old.id)
		}
	}
}

// Len returns how many sessions are known, expired ones included.
func (s *Sessions) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}
