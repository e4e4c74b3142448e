package hostname

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

const (
	// parallel bounds concurrent lookups. Each takes two sockets.
	parallel = 256
	// retrying bounds concurrent lookups of failing names.
	retrying   = 64
	maxBackoff = time.Minute
)

type name struct {
	text     string
	due      time.Time
	gone     bool
	pending  bool
	slow     bool // the last lookup exceeded Config.First, so the next one has Config.Timeout
	failures int
	in       *queue
	at       int
}

func (n *name) failing() bool { return n.slow || n.failures > 0 }

type schedule struct {
	sound  queue
	failed queue
	// due has the failing names whose lookup is due. Names with the fewest failures come first, so
	// names of a slow DNS server precede names of a dead one.
	due     queue
	running int
	retries int
}

type queue struct {
	names  []*name
	before func(a, b *name) bool
}

func newSchedule() *schedule {
	earlier := func(a, b *name) bool { return a.due.Before(b.due) }
	return &schedule{sound: queue{before: earlier}, failed: queue{before: earlier},
		due: queue{before: func(a, b *name) bool {
			return a.failures < b.failures || a.failures == b.failures && earlier(a, b)
		}}}
}

func (q *queue) Len() int           { return len(q.names) }
func (q *queue) Less(i, j int) bool { return q.before(q.names[i], q.names[j]) }
func (q *queue) Swap(i, j int) {
	q.names[i], q.names[j] = q.names[j], q.names[i]
	q.names[i].at, q.names[j].at = i, j
}
func (q *queue) Push(x any) {
	n := x.(*name)
	n.at = len(q.names)
	q.names = append(q.names, n)
}
func (q *queue) Pop() any {
	last := len(q.names) - 1
	n := q.names[last]
	q.names[last] = nil
	q.names = q.names[:last]
	return n
}

func (q *queue) add(n *name) {
	n.in = q
	heap.Push(q, n)
}

func (q *queue) take() *name {
	n := heap.Pop(q).(*name)
	n.in = nil
	return n
}

func (s *schedule) add(n *name) {
	if n.failing() {
		s.failed.add(n)
		return
	}
	s.sound.add(n)
}

func (s *schedule) remove(n *name) {
	if n.in != nil {
		heap.Remove(n.in, n.at)
		n.in = nil
	}
}

// next returns the name to look up now, or the time until the next lookup; negative: a running
// lookup must end first.
func (s *schedule) next(now time.Time) (n *name, wait time.Duration) {
	if s.running >= parallel {
		return nil, -1
	}
	if s.sound.Len() > 0 && !s.sound.names[0].due.After(now) {
		n = s.sound.take()
		s.running++
		return n, 0
	}
	for s.failed.Len() > 0 && !s.failed.names[0].due.After(now) {
		s.due.add(s.failed.take())
	}
	if s.due.Len() > 0 && s.retries < retrying {
		n = s.due.take()
		s.running++
		s.retries++
		return n, 0
	}
	wait = -1
	for _, q := range []*queue{&s.sound, &s.failed} {
		if q.Len() > 0 {
			if left := q.names[0].due.Sub(now); wait < 0 || left < wait {
				wait = left
			}
		}
	}
	return nil, wait
}

func (s *schedule) ended(retry bool) {
	s.running--
	if retry {
		s.retries--
	}
}

// backoff returns the pause after a number of failures, reduced by up to a random fifth. So names
// that failed together are not looked up again together.
func backoff(first time.Duration, failures int) time.Duration {
	pause := first
	for range failures - 1 {
		if pause *= 2; pause >= maxBackoff {
			pause = maxBackoff
			break
		}
	}
	return pause - time.Duration(rand.Int64N(int64(pause)/5+1))
}
