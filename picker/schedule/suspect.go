package schedule

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// An endpoint is suspect if its requests often fail, or if its metrics page is stale and no request
// has succeeded since. A suspect endpoint is the last choice: it gets one request at a time as a
// trial, until one succeeds. If less than half of a pool's endpoints have fresh pages, stale pages
// make no endpoint suspect, so that the few others do not get all requests.

type doubt uint8

const (
	failing doubt = 1 << iota
	stale
	trialDue
	silent
	given // the silent endpoint has received endpoint.MaxGiven requests
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

// Suspicion is why an endpoint is suspect, or "".
type Suspicion string

const (
	Silent  Suspicion = "silent" // the server sends no tokens
	Failing Suspicion = "failing"
	Stale   Suspicion = "stale" // stale metrics page, and no request has succeeded since
)

// Suspicions lists all suspicions.
var Suspicions = []Suspicion{Silent, Failing, Stale}

// Suspects returns the suspicion of each endpoint of list at now, in order. Strategies without
// trials suspect only silent endpoints.
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

func decides(eligible, fresh int) doubt {
	if 2*fresh >= eligible {
		return failing | stale
	}
	return failing
}

const silence = "silent"

// withoutSilent removes the silent endpoints from c, with three exceptions. An endpoint whose trial
// is due stays. While all other endpoints are full, a silent endpoint stays until it has received
// endpoint.MaxGiven requests. If all endpoints of the pool are silent, all stay as last choices.
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
	// in tokens a second
	slowestRate = 100
	// mostUnknown bounds the part of slowest in the predicted time to a response's end.
	mostUnknown = 5 * time.Second
)

// expects returns predicted times: first to the first token, and whole to the end of a response
// that is not streamed; 0 if unknown. slowest is the time to the first token at slowestRate, or 0
// if the server's rate is known.
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
