package schedule

import (
	"cmp"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Hashing configures the strategy "chwbl". Zero values mean the defaults.
type Hashing struct {
	VirtualNodes int     // per endpoint; default 100
	LoadFactor   float64 // maximum of an endpoint's requests in flight, divided by the mean; default 1.25
}

const (
	defaultVirtualNodes = 100
	defaultLoadFactor   = 1.25
	maxRanked           = 16
)

const overLoad = "over-load"

// chwbl is consistent hashing with bounded loads, as in Neutree's router. On the ring, from the
// hash of its key, a request takes the first endpoint with
//
//	load + 1 <= LoadFactor * (total + 1) / endpoints
//
// or, without such an endpoint, the first of all. load is the endpoint's number of requests in
// flight, and total the number at all endpoints. A request without a key goes to the endpoint with
// the fewest requests in flight.
type chwbl struct {
	rings  rings
	factor float64
	random func() uint64
}

func newCHWBL(o Options) *chwbl {
	return &chwbl{rings: rings{nodes: cmp.Or(o.Hashing.VirtualNodes, defaultVirtualNodes)},
		factor: cmp.Or(o.Hashing.LoadFactor, defaultLoadFactor), random: o.Random}
}

func (h *chwbl) prepare(list []endpoint.Endpoint) { h.rings.of(list) }

func (h *chwbl) choose(r *Request, list []endpoint.Endpoint, c []Candidate, states []endpoint.State,
	n int) []Candidate {
	if r.Spread == 0 {
		return fewest(c, states, n, h.random())
	}
	bound := h.bound(c, states)
	fits := func(k *Candidate) bool { return float64(states[k.lot].InFlight+1) <= bound }
	return h.rings.of(list).first(r.Spread, c, n, fits)
}

func (s *Strategy) passed(
	ring *ring, key uint64, list []endpoint.Endpoint, chosen *endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool,
	states []endpoint.State,
) *endpoint.Endpoint {
	at := ring.successor(key)
	for range ring.points {
		lot := ring.points[at].endpoint
		e := &list[lot]
		if e == chosen {
			return nil
		}
		if allowed == nil || allowed(e) {
			out := s.filteredBy(e, &states[lot])
			if out == "" || out == full && s.full.reached(&states[lot]) == reachedInFlight {
				return e
			}
		}
		if at++; at == len(ring.points) {
			at = 0
		}
	}
	return nil
}

func fewest(c []Candidate, states []endpoint.State, n int, draw uint64) []Candidate {
	for i := range c {
		c[i].Cost = float64(states[c[i].lot].InFlight)
	}
	return best(c, n, draw)
}

func (h *chwbl) bound(c []Candidate, states []endpoint.State) float64 {
	total := int64(0)
	for i := range c {
		total += states[c[i].lot].InFlight
	}
	return float64(total+1) / float64(len(c)) * h.factor
}

func (h *chwbl) explain(r *Request, list []endpoint.Endpoint, c []Candidate, states []endpoint.State,
	verdicts []Verdict) {
	bound, none := h.bound(c, states), true
	for i := range c {
		none = none && float64(states[c[i].lot].InFlight+1) > bound
	}
	if r.Spread == 0 {
		return
	}
	for i := range c {
		if !none && float64(states[c[i].lot].InFlight+1) > bound {
			verdicts[c[i].lot].Out = overLoad
		}
	}
	for i, k := range h.rings.of(list).first(r.Spread, c, maxRanked, func(*Candidate) bool { return true }) {
		verdicts[k.lot].Place = i + 1
	}
}

// first moves up to n candidates to the front of c: fitting candidates before others, each group in
// ring order from key. On entry, c must have the order of the ring's list.
func (r *ring) first(key uint64, c []Candidate, n int, fits func(*Candidate) bool) []Candidate {
	n = min(n, len(c), maxRanked)
	free := 0
	for i := range c {
		if fits(&c[i]) {
			free++
		}
	}
	var fitting, others [maxRanked]int
	chosen, rest := fitting[:0], others[:0]
	at := r.successor(key)
	for range r.points {
		if len(chosen) >= min(n, free) && len(chosen)+len(rest) >= n {
			break
		}
		i, found := index(c, r.points[at].endpoint)
		if at++; at == len(r.points) {
			at = 0
		}
		switch {
		case !found:
		case fits(&c[i]):
			if len(chosen) < n && !slices.Contains(chosen, i) {
				chosen = append(chosen, i)
			}
		case len(rest) < n && !slices.Contains(rest, i):
			rest = append(rest, i)
		}
	}
	chosen = append(chosen, rest[:n-len(chosen)]...)
	for k, i := range chosen {
		c[k], c[i] = c[i], c[k]
		for m := k + 1; m < n; m++ { // the candidate at k is now at i
			if chosen[m] == k {
				chosen[m] = i
			}
		}
	}
	return c[:n]
}

func index(c []Candidate, lot uint32) (int, bool) {
	if int(lot) < len(c) && c[lot].lot == lot { // c has all endpoints up to this one
		return int(lot), true
	}
	return sort.Find(len(c), func(i int) int { return cmp.Compare(lot, c[i].lot) })
}

type rings struct {
	nodes int
	last  atomic.Pointer[ringOf]
}

type ringOf struct {
	first  *endpoint.Endpoint
	size   int
	ring   *ring
	before *ringOf // the previous ringOf, with before set to nil
}

func (s *rings) of(list []endpoint.Endpoint) *ring {
	last := s.last.Load()
	for l := last; l != nil; l = l.before {
		if l.first == &list[0] && l.size == len(list) {
			return l.ring
		}
	}
	next := &ringOf{first: &list[0], size: len(list)}
	if last == nil {
		next.ring = newRing(s.nodes, list, nil)
	} else {
		next.ring = newRing(s.nodes, list, last.ring)
		next.before = &ringOf{first: last.first, size: last.size, ring: last.ring}
	}
	s.last.Store(next)
	return next.ring
}
