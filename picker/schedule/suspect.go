package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

// A suspect endpoint gets single requests: one that succeeds clears it. Meanwhile it is the last choice. Endpoints are suspect
// whose requests often fail, and stale ones where no request has succeeded since. If less than half of a pool is fresh, freshness
// decides nothing: then the pages are the problem, or the pool was idle, and the few fresh endpoints must not get everything.

// doubt is why an endpoint may be suspect.
type doubt uint8

const (
	failing doubt = 1 << iota
	stale
	trialDue
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
	return d
}

// suspect marks the suspect candidates. eligible and fresh count the pool's endpoints.
func suspect(c []Candidate, eligible, fresh int) {
	decisive := failing
	if 2*fresh >= eligible {
		decisive |= stale
	}
	for i := range c {
		if d := c[i].doubt; d&decisive != 0 {
			c[i].Trial = d&trialDue != 0
			c[i].last = !c[i].Trial
		}
	}
}
