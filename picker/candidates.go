package picker

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

// working is the memory of a Pick, which the next one takes over.
type working struct {
	candidates
	memory schedule.Scratch
	stage  schedule.Scratch // of one stage at a time
}

var workings = sync.Pool{New: func() any { return new(working) }}

// candidates are the endpoints for one request.
type candidates struct {
	picker  *Picker
	pool    *pool
	holder  endpoint.Holder
	request schedule.Request
	allowed func(*endpoint.Endpoint) bool
	scratch *schedule.Scratch
	stage   *schedule.Scratch
	media   bool // the prompt has some
	further further
	ranked  []schedule.Candidate
	at      time.Time // of the rank
	// Verdicts of a sampled pick are made after its rank and before its lease: they are what decided.
	sampled  bool
	verdicts []schedule.Verdict
	// Requests in flight of all processes where this one would have been one too many; 0: nowhere.
	contested int64
	lease     *endpoint.Lease // at the first of ranked; nil if the Gateway has too many
	unread    *unread         // what the servers are sent; nil for no prompt
}

// open ranks the endpoints and opens a lease at the first. It returns false if there is none that takes the request.
func (c *candidates) open(ctx context.Context, s *schedule.Strategy) bool {
	limit := int64(c.pool.Full.InFlight)
	if s == c.pool.unlimited {
		limit = 0
	}
	for {
		c.at = time.Now()
		c.ranked = s.Rank(&c.request, c.at, c.pool.snapshot.Endpoints, c.allowed, 1+c.pool.Fallbacks, c.scratch)
		if len(c.ranked) == 0 {
			return false
		}
		if c.sampled {
			c.verdicts = c.pool.describe(s, &c.request, c.at, c.allowed)
		}
		work := c.ranked[0].Work(&c.request)
		c.addFurther(&work)
		if c.picker.leases.Bounded(c.holder.Gateway) {
			c.picker.metrics.uncounted.WithLabelValues(c.holder.Gateway).Inc()
			return true
		}
		// Another pick may have taken the endpoint's last slot since, or its trial: the next rank takes that into account.
		if c.lease = c.picker.leases.Open(c.ranked[0].Endpoint, c.holder, work, limit, c.at); c.lease == nil {
			c.further.release()
			continue
		}
		c.lease.AddParts(c.further.leases...)
		c.further.leases = nil
		if limit > 0 && !c.picker.confirm(ctx, c.ranked[0].Endpoint.Load(), limit) {
			c.contested = c.ranked[0].Endpoint.Load().Total()
			c.lease.Release()
			c.lease.Done()
			c.lease, c.ranked, c.further, c.verdicts = nil, nil, further{}, nil
			return false
		}
		return true
	}
}

// exceeded returns the limits because of which no endpoint takes the request.
func (c *candidates) exceeded() []schedule.Excess {
	all := c.pool.strategy.Exceeded(c.scratch)
	if limit := c.pool.Full.InFlight; len(all) == 0 && limit > 0 && c.contested > 0 {
		all = append(all, schedule.Excess{Limit: schedule.LimitInFlight, Max: float64(limit), Value: float64(c.contested), Endpoints: 1})
	}
	return all
}
