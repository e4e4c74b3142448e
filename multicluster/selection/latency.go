package selection

import "time"

const (
	answerWeight = 0.2
	// answerAge is how long a mean is used after the last response.
	answerAge = 10 * time.Minute
	// At most every recheckPicks-th request tries a member whose last response is older than
	// recheck.
	recheck      = 30 * time.Second
	recheckPicks = 20
)

type answers struct {
	mean    float64   // mean time to the first byte without the round trip, in seconds
	at      time.Time // of the last response; zero: none
	waiting int
	pick    uint64
}

func (a *answers) add(now time.Time, seconds float64) {
	if a.known(now) {
		seconds = (1-answerWeight)*a.mean + answerWeight*seconds
	}
	a.mean, a.at = seconds, now
}

func (a *answers) known(now time.Time) bool { return !a.at.IsZero() && now.Sub(a.at) < answerAge }

// due reports whether the next request should measure the member. At most one trial is in flight.
func (a *answers) due(now time.Time, picks uint64) bool {
	return a.waiting == 0 && (!a.known(now) || now.Sub(a.at) >= recheck && picks-a.pick >= recheckPicks)
}

// firstByte returns the expected seconds to a member's first byte: its mean, or 0 to send it the
// request if a trial is due. While a member without a mean is tried, the mean of the slowest member
// counts.
func (l *LeastLoad) firstByte(m *member, now time.Time) (seconds float64, by Basis) {
	switch a := &m.answers; {
	case a.due(now, l.picks):
		return 0, Tried
	case a.known(now):
		return a.mean, Answered
	}
	for _, o := range l.members {
		if o.answers.known(now) {
			seconds = max(seconds, o.answers.mean)
		}
	}
	return seconds, Tried
}

func (l *LeastLoad) latency(m *member, now time.Time) Choice {
	c := Choice{Member: m.Name, Barred: m.bar(now), RoundTrip: m.RoundTrip.Seconds(), member: m}
	c.Wait, c.Basis = l.firstByte(m, now)
	l.sum(&c)
	return c
}

// FirstByteAfter is FirstByte that also records the time `after` from sending the request to the
// first byte; 0: unknown.
func (e *Lease) FirstByteAfter(now time.Time, after time.Duration) {
	if e.set == nil || e.read {
		return
	}
	if after > 0 {
		e.set.mu.Lock()
		e.member.answers.add(now, max(after-e.member.RoundTrip, 0).Seconds())
		e.set.mu.Unlock()
	}
	e.FirstByte()
}
