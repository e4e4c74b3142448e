package selection

import "time"

// Lease is a request that was sent to a member, until it ends. Its methods must not be called
// concurrently.
type Lease struct {
	set    *LeastLoad
	member *member
	number uint64
	tokens float64
	read   bool
}

// Begin charges a request to c, a Choice that Rank returned for it.
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
	if !l.cfg.Blind {
		m.blocks.add(p.Chain)
	}
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

// Bar excludes a member for a short time after it declined a request. The lease of the request
// belongs to another member.
func (l *LeastLoad) Bar(now time.Time, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.find(name); m != nil {
		m.barred = now.Add(barredFor)
	}
}
