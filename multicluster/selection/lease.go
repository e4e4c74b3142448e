package selection

import "time"

// Lease is a request that was sent to a member, until it ends. The zero value is none. It is not
// for concurrent use.
type Lease struct {
	of     *LeastLoad
	member *member
	number uint64
	tokens float64
	read   bool // the first byte was seen
}

// Begin charges a request to a member that Rank returned for it.
func (l *LeastLoad) Begin(now time.Time, c Choice, p Prompt) Lease {
	if c.member == nil {
		return Lease{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := c.member
	rate, servers := l.figures(m)
	lease := Lease{of: l, member: m, tokens: float64(c.Uncached)}
	l.picks++
	m.answers.pick = l.picks
	m.answers.waiting++
	lease.number = m.books.begin(now, lease.tokens, rate*servers)
	if !l.cfg.Blind {
		m.blocks.add(p.Chain)
	}
	return lease
}

// FirstByte notes that the member has sent the first byte of the response.
func (e *Lease) FirstByte() {
	if e.of == nil || e.read {
		return
	}
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	e.member.books.firstByte(e.tokens)
	e.member.answers.waiting--
	e.read = true
}

// End notes that the request has ended. Further calls have no effect.
func (e *Lease) End() {
	if e.of == nil {
		return
	}
	e.FirstByte()
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	e.member.books.inFlight--
	e.of = nil
}

// Declined ends a request that the member did not take, and bars the member.
func (e *Lease) Declined(now time.Time) {
	if e.of == nil {
		return
	}
	of := e.of
	e.End()
	of.mu.Lock()
	defer of.mu.Unlock()
	e.member.books.decline(e.number, e.tokens)
	e.member.barred = now.Add(barredFor)
}

// Bar bars a member that declined a request that was not charged to it: the data plane sent it
// there after another one's.
func (l *LeastLoad) Bar(now time.Time, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.find(name); m != nil {
		m.barred = now.Add(barredFor)
	}
}
