package schedule

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// A suspect endpoint gets single requests: one that succeeds clears it. Meanwhile it is the last
// choice. Endpoints are suspect whose requests often fail, and stale ones where no request has
// succeeded since. If less than half of a pool is fresh, freshness decides nothing: then the pages
// are the problem, or the pool was idle, and the few fresh endpoints must not get everything.

// doubt is why an endpoint may be suspect.
type doubt uint8

const (
	failing doubt = 1 << iota
	stale
	trialDue
	silent
	given // the silent endpoint has had all requests that it may have
)

func doubts(s *endpoint.State) (d doubt) {
	if s.Failing {
		d |= failing
	}
	if !s.Fresh && !s.Proven {
		d |= stale
	}
	if s.Trial {
		d |= trialDue
	}
	if s.Silent != nil {
		if d |= silent; s.Given >= endpoint.MaxGiven {
			d |= given
		}
	}
	return d
}

// Suspicion is why an endpoint is suspect; "" if it is not.
type Suspicion string

// The reasons.
const (
	Silent  Suspicion = "silent"  // it sends no tokens
	Failing Suspicion = "failing" // its requests fail
	Stale   Suspicion = "stale"   // its metrics page is stale, and no request has succeeded since
)

// Suspicions are all reasons.
var Suspicions = []Suspicion{Silent, Failing, Stale}

// Suspects returns why each endpoint of list is suspect at a moment, in its order. Strategies that
// take turns suspect silent endpoints alone.
func (s *Strategy) Suspects(now time.Time, list []endpoint.Endpoint) []Suspicion {
	s = s.of(&Request{})
	out, all := make([]Suspicion, len(list)), make([]doubt, len(list))
	eligible, fresh, at := 0, 0, endpoint.At(now)
	var state endpoint.State
	for i := range list {
		list[i].ReadState(&state, at)
		all[i] = doubts(&state)
		if by := s.filteredBy(&list[i], &state); by != "" && by != full {
			all[i] = 0
			continue
		}
		if eligible++; state.Fresh {
			fresh++
		}
	}
	decisive := silent
	if s.trials {
		decisive |= decides(eligible, fresh)
	}
	for i, d := range all {
		out[i] = (d & decisive).suspicion()
	}
	return out
}

// suspicion is the first of the doubts.
func (d doubt) suspicion() Suspicion {
	switch {
	case d&silent != 0:
		return Silent
	case d&failing != 0:
		return Failing
	case d&stale != 0:
		return Stale
	}
	return ""
}

// decides returns which doubts make endpoints suspect that are not silent, where so many of those
// that are eligible have fresh pages.
func decides(eligible, fresh int) doubt {
	if 2*fresh >= eligible {
		return failing | stale
	}
	return failing
}

// silence is the name of the rule that leaves out silent endpoints.
const silence = "silent"

// withoutSilent removes the silent endpoints from c, with every strategy: a request gets no
// token there. A silent endpoint stays for a trial that is due. While all others are full it gets
// endpoint.MaxGiven requests, and while all are silent silence decides nothing, but for Suspect.
func withoutSilent(c []Candidate, serving int) []Candidate {
	free := false
	for i := range c {
		free = free || c[i].doubt&silent == 0
	}
	kept := c[:0]
	for i := range c {
		d := c[i].doubt
		switch c[i].last = d&silent != 0; {
		case d&silent == 0, serving == 0:
		case d&trialDue != 0:
			c[i].Trial, c[i].last = true, false
		case free || d&given != 0:
			continue
		}
		kept = append(kept, c[i])
	}
	return kept
}

// suspect marks the suspect candidates. eligible and fresh count the pool's endpoints.
func suspect(c []Candidate, eligible, fresh int) {
	decisive := decides(eligible, fresh)
	for i := range c {
		if d := c[i].doubt; d&decisive != 0 && d&silent == 0 {
			c[i].Trial = d&trialDue != 0
			c[i].last = !c[i].Trial
		}
	}
}

const (
	// slowestRate, in tokens a second, is the least at which a server reads prompts.
	slowestRate = 100
	// mostUnknown is the most of it that counts for the time to the end of an answer.
	mostUnknown = 5 * time.Second
)

// expects returns the predicted times to the first token, and to the end of an answer that is not
// streamed, by which a server is found to be silent; 0: unknown. slowest is the time to the first
// token at slowestRate, if the server's rate is unknown; else 0.
func (c *Candidate) expects(r *Request) (first, slowest, whole time.Duration) {
	if c.TTFT <= 0 {
		return 0, 0, 0
	}
	seconds := func(s float64) time.Duration { return time.Duration(min(s, 3600) * float64(time.Second)) }
	if first = seconds(c.TTFT); c.RateFrom == "" {
		slowest = seconds(c.ahead + c.uncached/slowestRate)
	}
	if r.MaxTokens > 0 {
		whole = max(first, min(slowest, mostUnknown)) + seconds(c.TPOT*float64(r.MaxTokens))
	}
	return first, slowest, whole
}
