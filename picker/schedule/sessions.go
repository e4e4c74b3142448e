package schedule

import (
	"container/list"
	"sync"
	"time"
)

// maxSessions bounds a pool's Sessions, of about 200 bytes each. A further session replaces the
// least recently used one.
const maxSessions = 1 << 16

// Sessions maps a pool's sessions to endpoints or, for an import, to clusters.
type Sessions[At comparable] struct {
	mu    sync.Mutex
	known map[uint64]*list.Element
	order list.List // elements are of type *kept[At], last used first
}

type kept[At comparable] struct {
	id     uint64
	at     At
	on     time.Time
	shared time.Time // when Keep last returned true; zero if another process reported the session
}

// renewals is how often a session in use is published within its time to live.
const renewals = 4

// Find returns the endpoint or cluster of a session that had a request within ttl, else zero.
func (s *Sessions[At]) Find(id uint64, now time.Time, ttl time.Duration) (at At) {
	if id == 0 {
		return at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[id]; e != nil && now.Sub(e.Value.(*kept[At]).on) <= ttl {
		at = e.Value.(*kept[At]).at
	}
	return at
}

// Keep records that a session's request goes to an endpoint or cluster. If publish is true, the
// caller must publish the session to other processes: it is new, has moved, or was published long
// ago.
func (s *Sessions[At]) Keep(id uint64, at At, now time.Time, ttl time.Duration) (publish bool) {
	if id == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := kept[At]{id, at, now, now}
	if e := s.known[id]; e != nil {
		if old := e.Value.(*kept[At]); old.at == at && now.Sub(old.shared) < ttl/renewals {
			next.shared = old.shared
		}
	}
	s.put(next, now, ttl)
	return next.shared.Equal(now)
}

// Learn records a session that another process published. It keeps this process's record if that
// is newer.
func (s *Sessions[At]) Learn(id uint64, at At, on, now time.Time, ttl time.Duration) {
	if id == 0 || now.Sub(on) > ttl {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[id]; e != nil && e.Value.(*kept[At]).on.After(on) {
		return
	}
	s.put(kept[At]{id: id, at: at, on: on}, now, ttl)
}

// Each calls f for each unexpired session, last used first, until f returns false.
func (s *Sessions[At]) Each(now time.Time, ttl time.Duration, f func(id uint64, at At, on time.Time) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Front(); e != nil; e = e.Next() {
		if k := e.Value.(*kept[At]); now.Sub(k.on) <= ttl && !f(k.id, k.at, k.on) {
			return
		}
	}
}

// put stores a session as the last used one. The caller holds s.mu.
func (s *Sessions[At]) put(next kept[At], now time.Time, ttl time.Duration) {
	if e := s.known[next.id]; e != nil {
		*e.Value.(*kept[At]) = next
		s.order.MoveToFront(e)
		return
	}
	if s.known == nil {
		s.known = map[uint64]*list.Element{}
	}
	s.known[next.id] = s.order.PushFront(&next)
	for range 2 { // at most two expired sessions, to keep each call short
		last := s.order.Back()
		if old := last.Value.(*kept[At]); len(s.known) > maxSessions || now.Sub(old.on) > ttl {
			s.order.Remove(last)
			delete(s.known, old.id)
		}
	}
}

// Len counts the sessions, including expired ones.
func (s *Sessions[At]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}
