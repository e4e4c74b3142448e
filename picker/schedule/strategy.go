package schedule

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

// Full are the thresholds of a full endpoint, which takes no further requests: one threshold is enough; 0 disables one.
type Full struct {
	Queue          int32 // requests waiting
	KVCachePercent int32 // 1 to 100
	InFlight       int32 // requests in flight of all processes
}

// Options of a Strategy.
type Options struct {
	Name   string // a key of the table; "" means "load"
	Full   Full
	Random func() uint64 // uniform; required
	// Prefixes are those that the endpoints' servers have cached; nil: not known.
	Prefixes *prefix.Index
}

// Strategy ranks endpoints. One serves a pool until its options change; many requests call its methods concurrently.
type Strategy struct {
	name     string
	filters  []filter
	scorer   scorer        // nil: all cost the same
	trials   bool          // suspect endpoints get single requests
	prefixes *prefix.Index // nil if they do not decide
	random   func() uint64
	turn     *atomic.Uint64 // the round-robin position; nil in other strategies
}

// filter keeps or removes one endpoint, independently of the others.
type filter struct {
	name string
	keep func(*endpoint.Endpoint, *endpoint.State) bool
}

// scorer gives every candidate a cost.
type scorer interface {
	score(r *Request, c []Candidate)
	// explain returns the parts of each candidate's cost, by name.
	explain(r *Request, c []Candidate) []map[string]float64
}

// Candidate is an endpoint that passed the filters, with the state that they evaluated.
type Candidate struct {
	Endpoint *endpoint.Endpoint
	State    endpoint.State
	Cached   int     // tokens of the prompt that the server has cached
	Cost     float64 // of strategy load in seconds, of least-request in requests
	Trial    bool    // the endpoint is suspect, and this request shows whether it works
	last     bool    // the endpoint is suspect, and gets this request only if there is no other
	rate     float64 // of prefill, in tokens a second; 0 if prompts do not decide
	uncached float64 // tokens
	tie      uint64
}

// Work returns what a request asks of the endpoint.
func (c *Candidate) Work(r *Request) endpoint.Work {
	w := endpoint.Work{Tokens: int(c.uncached), Rate: c.rate * leak, Stream: r.Stream, Trial: c.Trial}
	// Another sender's queue would look like a slow server.
	w.Measure = r.Stream && r.Tokens > 0 && c.State.OthersQueue*c.State.Prompt <= c.uncached
	return w
}

// Scratch is reusable working memory for Rank.
type Scratch struct {
	candidates []Candidate
	// Eligible is the last Rank's number of allowed endpoints that are not draining, full ones included.
	Eligible int
	fresh    int // of them
	servers  []*prefix.Server
	cached   []int32
}

// Names of all strategies, sorted.
func Names() []string {
	names := make([]string, 0, len(strategies))
	for name := range strategies {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New returns the strategy that o names. The error for an unknown name lists the names.
func New(o Options) (*Strategy, error) {
	if o.Name == "" {
		o.Name = "load"
	}
	build, ok := strategies[o.Name]
	if !ok {
		return nil, fmt.Errorf("unknown strategy %q: use one of %v", o.Name, Names())
	}
	s := build(o)
	s.name, s.random = o.Name, o.Random
	if s.scorer == (load{}) {
		s.prefixes = o.Prefixes
	}
	s.filters = append([]filter{notDraining, notFull(o.Full)}, s.filters...)
	return s, nil
}

// Name of the strategy.
func (s *Strategy) Name() string { return s.name }

// Rank returns up to n endpoints of list for a request, best first, by their state at now; n is at least 1. allowed, if not
// nil, restricts the choice. The result is valid until scratch is used again.
func (s *Strategy) Rank(r *Request, now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool, n int, scratch *Scratch) []Candidate {
	c := s.candidates(now, list, allowed, scratch)
	if len(c) == 0 {
		return nil
	}
	if s.turn != nil {
		return inTurn(c, s.turn.Add(1)-1, n)
	}
	s.match(r, c, scratch)
	if s.scorer != nil {
		s.scorer.score(r, c)
	}
	if s.trials {
		suspect(c, scratch.Eligible, scratch.fresh)
	}
	lot := s.random()
	for i := range c {
		c[i].tie = mix(lot + uint64(i))
	}
	return best(c, n)
}

// match sets what each candidate has cached of a request's prompt.
func (s *Strategy) match(r *Request, c []Candidate, scratch *Scratch) {
	if s.prefixes == nil || len(r.Chain) == 0 {
		return
	}
	scratch.servers = slices.Grow(scratch.servers[:0], len(c))
	for i := range c {
		scratch.servers = append(scratch.servers, c[i].Endpoint.Load().Prefixes())
	}
	scratch.cached = slices.Grow(scratch.cached[:0], len(c))[:len(c)]
	s.prefixes.Match(r.Chain, scratch.servers, scratch.cached)
	for i := range c {
		c[i].Cached = int(scratch.cached[i])
	}
	clear(scratch.servers) // a scratch outlives pools
}

// mix is the finalizer of splitmix64: different numbers look like independent draws.
func mix(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// candidates are the endpoints that pass the filters, in the order of list.
func (s *Strategy) candidates(now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool, scratch *Scratch) []Candidate {
	c := scratch.candidates[:0]
	scratch.Eligible, scratch.fresh = 0, 0
	for i := range list {
		e := &list[i]
		if allowed != nil && !allowed(e) {
			continue
		}
		// The state goes into scratch first: a local variable would be allocated for every endpoint.
		c = append(c, Candidate{Endpoint: e})
		state := &c[len(c)-1].State
		e.ReadState(state, now)
		if !e.Draining {
			scratch.Eligible++
			if state.Fresh {
				scratch.fresh++
			}
		}
		if s.filteredBy(e, state) != "" {
			c = c[:len(c)-1]
		}
	}
	scratch.candidates = c
	return c
}

// best moves the n best candidates to the front: by cost, then at random.
func best(c []Candidate, n int) []Candidate {
	n = min(n, len(c))
	for i := range n {
		m := i
		for k := i + 1; k < len(c); k++ {
			if better(&c[k], &c[m]) {
				m = k
			}
		}
		c[i], c[m] = c[m], c[i]
	}
	return c[:n]
}

func better(a, b *Candidate) bool {
	if a.last != b.last {
		return b.last
	}
	if a.Cost != b.Cost {
		return a.Cost < b.Cost
	}
	return a.tie < b.tie
}

// inTurn rotates the candidates so that number turn comes first, and returns n of them.
func inTurn(c []Candidate, turn uint64, n int) []Candidate {
	first := int(turn % uint64(len(c)))
	slices.Reverse(c[:first])
	slices.Reverse(c[first:])
	slices.Reverse(c)
	return c[:min(n, len(c))]
}

// Candidates returns all endpoints that passed the filters of the last Rank or Preview, the ranked ones first.
func (s *Scratch) Candidates() []Candidate { return s.candidates }
