package selection

import "time"

// Lease accounts for a request that was sent to a member, until the request ends. Its methods must
// not be called concurrently.
type Lease struct {
	set    *LeastLoad
	member *member
	number uint64
	tokens float64
	read   bool
}

// Begin records that a request was sent to the member of c, a Choice of Rank for the request.
func (l *LeastLoad) Begin(now time.Time, c Choice, p Prompt) Lease {
	if c.member == nil {
		return Lease{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := c.member
	rate, servers := l.figures(m)
	lease := Lease{set: l, member: m, tokens: float64(c.Uncached)}
	l.picks++
	m.answers.pick = l.picks
	m.answers.waiting++
	lease.number = m.books.begin(now, lease.tokens, rate*servers)
	m.blocks.add(p.Chain)
	return lease
}

// FirstByte records that the member sent the first byte of the response.
func (e *Lease) FirstByte() {
	if e.set == nil || e.read {
		return
	}
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	e.member.books.firstByte(e.tokens)
	e.member.answers.waiting--
	e.read = true
}

// End records that the request ended. Further calls have no effect.
func (e *Lease) End() {
	if e.set == nil {
		return
	}
	e.FirstByte()
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	e.member.books.inFlight--
	e.set = nil
}

// Declined ends a request that the member declined, and bars the member.
func (e *Lease) Declined(now time.Time) {
	if e.set == nil {
		return
	}
	set := e.set
	e.End()
	set.mu.Lock()
	defer set.mu.Unlock()
	e.member.books.decline(e.number, e.tokens)
	e.member.barred = now.Add(barredFor)
}
