package schedule

// A suspect endpoint gets single requests: one that succeeds clears it. Meanwhile it is the last choice. Endpoints are suspect
// whose requests often fail, and stale ones where no request has succeeded since. If less than half of a pool is fresh, freshness
// decides nothing: then the pages are the problem, or the pool was idle, and the few fresh endpoints must not get everything.

// suspect marks the suspect candidates. eligible and fresh count the pool's endpoints.
func suspect(c []Candidate, eligible, fresh int) {
	decides := 2*fresh >= eligible
	for i := range c {
		s := &c[i].State
		if s.Failing || decides && !s.Fresh && !s.Proven {
			c[i].Trial = s.Trial
			c[i].last = !s.Trial
		}
	}
}
