package schedule

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Weights of the scorers of strategy "load", relative to each other; 0 omits a scorer. All zero means 2, 2 and 1.
type Weights struct {
	Queue, KVCache, InFlight int32
}

// Full are the thresholds of a full endpoint, which takes no further requests: one threshold is enough; 0 disables one.
type Full struct {
	Queue          int32 // requests waiting
	KVCachePercent int32 // 1 to 100
	InFlight       int32 // requests in flight of all processes
}

// Options of a Strategy.
type Options struct {
	Name    string // a key of the table; "" means "load"
	Weights Weights
	Full    Full
	Random  func(n int) int // uniform in [0,n); required
}

// Strategy ranks endpoints. One serves a pool until its options change; many requests call its methods concurrently.
type Strategy struct {
	name    string
	filters []filter
	scorers []weighted
	random  func(n int) int
	turn    *atomic.Uint64 // the round-robin position; nil in other strategies
}

// filter keeps or removes one endpoint, independently of the others.
type filter struct {
	name string
	keep func(*endpoint.Endpoint, *endpoint.State) bool
}

// scorer gives every candidate a cost between 0 (best) and 1, relative to the others.
type scorer struct {
	name string
	cost func(candidates []Candidate, out []float64)
}

type weighted struct {
	scorer
	weight float64
}

// Candidate is an endpoint that passed the filters, with the state that they evaluated.
type Candidate struct {
	Endpoint *endpoint.Endpoint
	State    endpoint.State
	Cached   int     // tokens of the prompt that the server has cached
	Cost     float64 // weighted mean of the scorers' costs
	tie      uint64
}

// Scratch is reusable working memory for Rank.
type Scratch struct {
	candidates []Candidate
	costs      []float64
	// Eligible is the last Rank's number of allowed endpoints that are not draining, full ones included.
	Eligible int
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
	s.score(c, scratch)
	for i := range c {
		c[i].tie = uint64(s.random(1 << 30))
	}
	return best(c, n)
}

// candidates are the endpoints that pass the filters, in the order of list.
func (s *Strategy) candidates(now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool, scratch *Scratch) []Candidate {
	c := scratch.candidates[:0]
	scratch.Eligible = 0
	for i := range list {
		e := &list[i]
		if allowed != nil && !allowed(e) {
			continue
		}
		if !e.Draining {
			scratch.Eligible++
		}
		// The state goes into scratch first: a local variable would be allocated for every endpoint.
		c = append(c, Candidate{Endpoint: e, State: e.StateAt(now)})
		if s.filteredBy(e, &c[len(c)-1].State) != "" {
			c = c[:len(c)-1]
		}
	}
	scratch.candidates = c
	return c
}

func (s *Strategy) score(c []Candidate, scratch *Scratch) {
	if cap(scratch.costs) < len(c) {
		scratch.costs = make([]float64, len(c))
	}
	costs := scratch.costs[:len(c)]
	for _, w := range s.scorers {
		w.cost(c, costs)
		for i := range c {
			c[i].Cost += w.weight * costs[i]
		}
	}
}

// best moves the n best candidates to the front: by cost, then fresh before stale, then at random.
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
	if a.Cost != b.Cost {
		return a.Cost < b.Cost
	}
	if a.State.Fresh != b.State.Fresh {
		return a.State.Fresh
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
