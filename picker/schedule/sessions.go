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
	id     uint64
	at     netip.AddrPort
	on     time.Time // of the last request
	shared time.Time // when Keep reported it last; zero for a session of another process
}

// renewals is how often a session that stays is reported in its time to live.
const renewals = 4

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

// Keep records that a session has a request at an endpoint. It does nothing without an ID. It reports whether other processes need to learn
// of it: the session is new, has moved, or goes on for a while.
func (s *Sessions) Keep(id uint64, at netip.AddrPort, now time.Time, ttl time.Duration) (publish bool) {
	if id == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := kept{id, at, now, now}
	if e := s.known[id]; e != nil {
		if old := e.Value.(*kept); old.at == at && now.Sub(old.shared) < ttl/renewals {
			next.shared = old.shared
		}
	}
	s.put(next, now, ttl)
	return next.shared.Equal(now)
}

// Learn records a session whose last request another process has picked for, at a time. A later one counts.
func (s *Sessions) Learn(id uint64, at netip.AddrPort, on, now time.Time, ttl time.Duration) {
	if id == 0 || now.Sub(on) > ttl {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[id]; e != nil && e.Value.(*kept).on.After(on) {
		return
	}
	s.put(kept{id: id, at: at, on: on}, now, ttl)
}

// Each calls f for the sessions that have not expired, the last used first, until it returns false.
func (s *Sessions) Each(now time.Time, ttl time.Duration, f func(id uint64, at netip.AddrPort, on time.Time) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Front(); e != nil; e = e.Next() {
		if k := e.Value.(*kept); now.Sub(k.on) <= ttl && !f(k.id, k.at, k.on) {
			return
		}
	}
}

// put keeps a session. s.mu is held.
func (s *Sessions) put(next kept, now time.Time, ttl time.Duration) {
	if e := s.known[next.id]; e != nil {
		*e.Value.(*kept) = next
		s.order.MoveToFront(e)
		return
	}
	if s.known == nil {
		s.known = map[uint64]*list.Element{}
	}
	s.known[next.id] = s.order.PushFront(&next)
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
