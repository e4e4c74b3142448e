package selection

import "time"

const (
	// maxUnreported bounds the tracked requests of a member. Beyond it, the oldest counts as
	// reported.
	maxUnreported = 1024
	// settled is the age at which a request that no report counts is assumed lost.
	settled = time.Second
)

type books struct {
	queue []sent // the requests that no report counts yet, oldest first
	// pending counts the requests in queue that were not declined. tokens is the sum of their
	// uncached tokens.
	pending int
	tokens  float64
	number  uint64
	// base is the count in the first report; synced: it is known. taken counts the requests that
	// left queue since then.
	taken, base uint64
	synced      bool

	// These fields are used without reports. unserved is Q in doc.go, and backlog is W at the time
	// at.
	unserved, backlog float64
	at                time.Time
	inFlight          int
}

type sent struct {
	at       time.Time
	tokens   float64
	declined bool
}

// unreported returns the seconds that one server takes for the requests that no report counts yet.
func (b *books) unreported(rate float64) float64 {
	return b.tokens/rate + perRequest*float64(b.pending)
}

// wait returns the expected wait, in seconds, of a new request at a member without reports.
func (b *books) wait(now time.Time, rate, servers float64) float64 {
	work := min(max(b.leaked(now, rate*servers), b.unserved/2), b.unserved)
	return (work/rate + perRequest*float64(b.inFlight)) / servers
}

func (b *books) leaked(now time.Time, rate float64) float64 {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.backlog, b.at = max(0, b.backlog-rate*passed), now
	}
	return b.backlog
}

func (b *books) begin(now time.Time, tokens, rate float64) uint64 {
	if b.at.IsZero() {
		b.at = now
	}
	b.backlog = b.leaked(now, rate) + tokens
	b.unserved += tokens
	b.inFlight++
	if len(b.queue) == maxUnreported {
		b.pop()
		b.taken++
	}
	b.queue = append(b.queue, sent{at: now, tokens: tokens})
	b.pending++
	b.tokens += tokens
	b.number++
	return b.number - 1
}

func (b *books) firstByte(tokens float64) { b.unserved = max(0, b.unserved-tokens) }

func (b *books) decline(number uint64, tokens float64) {
	b.backlog = max(0, b.backlog-tokens)
	i := number - (b.number - uint64(len(b.queue)))
	if i >= uint64(len(b.queue)) {
		return
	}
	s := &b.queue[i]
	s.declined = true
	b.pending--
	b.tokens -= s.tokens
}

func (b *books) pop() {
	s := b.queue[0]
	if b.queue = b.queue[1:]; s.declined {
		return
	}
	if b.pending--; b.pending == 0 {
		b.tokens = 0 // discards rounding errors
	} else {
		b.tokens = max(0, b.tokens-s.tokens)
	}
}

// counted applies a report of n received requests. n should include every request that was sent
// before the time `before`.
func (b *books) counted(before time.Time, n uint64) {
	if !b.synced || n < b.base {
		for len(b.queue) > 0 && b.queue[0].at.Before(before) {
			b.pop()
		}
		b.base, b.taken, b.synced = n, 0, true
		return
	}
	for len(b.queue) > 0 && (b.taken < n-b.base || b.queue[0].declined) {
		if !b.queue[0].declined {
			b.taken++
		}
		b.pop()
	}
	for limit := before.Add(-settled); len(b.queue) > 0 && b.queue[0].at.Before(limit); {
		b.pop()
	}
	if len(b.queue) == 0 {
		b.base, b.taken = n, 0
	}
}
