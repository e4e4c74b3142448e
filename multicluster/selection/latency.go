package selection

import "time"

const (
	// answerWeight is that of the newest answer in a member's mean.
	answerWeight = 0.2
	// answerAge is how long a mean counts. After it the member is as one that has never answered.
	answerAge = 10 * time.Minute
	// A member whose last answer is older than recheck is tried by every recheckPicks-th request at
	// most.
	recheck      = 30 * time.Second
	recheckPicks = 20
)

// answers are those of a member, for Latency.
type answers struct {
	mean    float64   // from when a request was sent until the first byte arrived, less the round trip, in seconds
	at      time.Time // of the last one; zero: there was none
	waiting int       // requests without an answer
	pick    uint64    // number of the last request
}

// add takes an answer into the mean.
func (a *answers) add(now time.Time, seconds float64) {
	if a.known(now) {
		seconds = (1-answerWeight)*a.mean + answerWeight*seconds
	}
	a.mean, a.at = seconds, now
}

func (a *answers) known(now time.Time) bool { return !a.at.IsZero() && now.Sub(a.at) < answerAge }

// due reports whether the next request should show how fast the member is. One at a time does.
func (a *answers) due(now time.Time, picks uint64) bool {
	return a.waiting == 0 && (!a.known(now) || now.Sub(a.at) >= recheck && picks-a.pick >= recheckPicks)
}

// firstByte is what is expected of a member, in seconds: the mean of its answers, and nothing if it
// is tried, so that it is chosen unless its round trip alone takes longer than another member.
// While the first request to a member waits, the slowest other one stands for it.
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

// latency is choice for Latency.
func (l *LeastLoad) latency(m *member, now time.Time) Choice {
	c := Choice{Member: m.Name, Barred: m.bar(now), RoundTrip: m.RoundTrip.Seconds(), member: m}
	c.Wait, c.Basis = l.firstByte(m, now)
	l.sum(&c)
	return c
}

// FirstByteAfter is FirstByte, with how long after the request was sent the first byte arrived; 0:
// that is unknown.
func (e *Lease) FirstByteAfter(now time.Time, after time.Duration) {
	if e.of == nil || e.read {
		return
	}
	if after > 0 {
		e.of.mu.Lock()
		e.member.answers.add(now, max(after-e.member.RoundTrip, 0).Seconds())
		e.of.mu.Unlock()
	}
	e.FirstByte()
}
