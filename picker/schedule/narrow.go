package schedule

import (
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

// Endpoints that a narrower excludes come after all others in the pick. So no pick ends without an
// endpoint.

// narrower sets Candidate.out for the candidates to avoid. draw is uniformly distributed.
type narrower interface {
	narrow(v view, draw uint64)
}

var pluginNarrowers = map[string]func(endpointpicker.Instance) narrower{
	endpointpicker.PrefixAffinityFilter: func(p endpointpicker.Instance) narrower {
		return prefixAffinity{p.Parameters.(*endpointpicker.PrefixAffinity)}
	},
	endpointpicker.SessionAffinityFilter: func(endpointpicker.Instance) narrower { return sessionPin{} },
	endpointpicker.HeadroomTierFilter: func(p endpointpicker.Instance) narrower {
		return headroomTier{p.Parameters.(*endpointpicker.HeadroomTier)}
	},
	endpointpicker.ContextLengthAware: func(p endpointpicker.Instance) narrower {
		return contextLength{p.Parameters.(*endpointpicker.ContextLength)}
	},
}

type named struct {
	narrower
	name string
}

// narrow moves the candidates that all narrowers keep to the front, and returns their number. It
// skips a narrower that would keep none. Narrowers also exclude suspect candidates, except if all
// are suspect.
func (p *plugins) narrow(v view, by func(lot uint32, name string)) int {
	kept := len(v.c)
	for i := range p.narrowers {
		n := &p.narrowers[i]
		front := v
		front.c = v.c[:kept]
		free := 0
		for k := range front.c {
			front.c[k].out = false
			if !front.c[k].last {
				free++
			}
		}
		n.narrow(front, p.random())
		left := 0
		for k := range front.c {
			c := &front.c[k]
			if c.out = c.out || c.last && free > 0; !c.out {
				front.c[left], front.c[k] = front.c[k], front.c[left]
				left++
			}
		}
		if left == 0 {
			continue
		}
		for k := left; k < kept; k++ {
			by(front.c[k].lot, n.name)
		}
		kept = left
	}
	return kept
}

func uniformPart(draw uint64) float64 { return float64(draw>>11) / (1 << 53) }

func (v *view) cachedPart(i int) float64 {
	blocks := len(v.r.Chain)
	if blocks == 0 { // a short prompt, or one with only its token IDs known
		blocks = len(v.r.Exact.Ends)
	}
	if blocks == 0 {
		return 0
	}
	return min(float64(v.c[i].Cached)/float64(prefix.End(blocks-1)), 1)
}

// prefixAffinity implements llm-d's prefix-cache-affinity-filter: it keeps the endpoints that have
// most of the prompt cached, except if their first token would come much later than elsewhere.
type prefixAffinity struct {
	*endpointpicker.PrefixAffinity
}

func (p prefixAffinity) narrow(v view, draw uint64) {
	if p.AffinityThreshold <= 0 || uniformPart(draw) < p.ExplorationProbability {
		return
	}
	var best [2]float64 // least ms to the first token: at kept endpoints, and at others
	var count [2]int
	for i := range v.c {
		side := 0
		if v.c[i].out = v.cachedPart(i) < p.AffinityThreshold; v.c[i].out {
			side = 1
		}
		if ms := p.firstToken(v, i); count[side] == 0 || ms < best[side] {
			best[side] = ms
		}
		count[side]++
	}
	if p.MaxTTFTPenaltyMs > 0 && count[0] > 0 && count[1] > 0 && best[0]-best[1] > p.MaxTTFTPenaltyMs {
		for i := range v.c {
			v.c[i].out = false
		}
	}
}

func (p prefixAffinity) firstToken(v view, i int) float64 {
	if p.Predicts() {
		return 1000 * v.c[i].TTFT
	}
	return 1000 * float64(v.state(i).Unread) / p.PeakPrefillThroughput
}

type sessionPin struct{}

func (sessionPin) narrow(v view, _ uint64) {
	at := v.r.Session.At
	for i := range v.c {
		v.c[i].out = v.c[i].Endpoint.Addr != at
	}
}

// headroomTier implements llm-d's slo-headroom-tier-filter: it keeps the endpoints that are
// predicted to meet the request's objective, or the other endpoints for a few random requests.
type headroomTier struct {
	*endpointpicker.HeadroomTier
}

func (h headroomTier) narrow(v view, draw uint64) {
	if v.r.Objective == (Objective{}) {
		return
	}
	explore := uniformPart(draw) < h.EpsilonExploreNeg
	for i := range v.c {
		v.c[i].out = v.c[i].misses != explore
	}
}

// contextLength implements llm-d's context-length-aware, as a filter and as a scorer. A label of
// each endpoint has the range of its prompts' lengths, in tokens.
type contextLength struct {
	*endpointpicker.ContextLength
}

func (p contextLength) lengths(e *endpoint.Endpoint) (low, high int, labeled, ok bool) {
	text, labeled := e.Labels[p.Label]
	first, second, _ := strings.Cut(text, "-")
	low, err := strconv.Atoi(strings.TrimSpace(first))
	high, err2 := strconv.Atoi(strings.TrimSpace(second))
	return low, high, labeled, err == nil && err2 == nil && low <= high
}

func (p contextLength) narrow(v view, _ uint64) {
	for i := range v.c {
		low, high, labeled, ok := p.lengths(v.c[i].Endpoint)
		v.c[i].out = labeled && (!ok || v.r.Tokens < low || v.r.Tokens > high)
	}
}

// add implements pluginScorer. An endpoint whose range contains the prompt's length scores 0.3 to
// 1: more for a narrower range, and for more room above the prompt. Other endpoints score at most
// 0.3: less if the range is farther away.
func (p contextLength) add(v view, weight float64) {
	const outside = 0.3
	for i := range v.c {
		low, high, labeled, ok := p.lengths(v.c[i].Endpoint)
		score := 0.0
		switch n, width := v.r.Tokens, float64(high-low); {
		case !labeled:
			score = 0.5
		case !ok:
		case n < low || n > high:
			score = outside / (1 + float64(max(low-n, n-high))/1000)
		case width == 0:
			score = 1
		default:
			score = outside + (1-outside)*(0.7/(1+width/10000)+0.3*float64(high-n)/width)
		}
		v.c[i].Score += weight * score
	}
}

func withinLimits(p endpointpicker.Instance) func(*endpoint.Endpoint, *endpoint.State) bool {
	limits := p.Parameters.(*endpointpicker.UtilizationLimits)
	return func(_ *endpoint.Endpoint, s *endpoint.State) bool { return meets(limits, s) }
}

func meets(limits *endpointpicker.UtilizationLimits, s *endpoint.State) bool {
	for _, c := range limits.Conditions {
		value := 0.0
		switch c.Metric {
		case endpointpicker.ActiveRequests:
			value = float64(s.InFlight)
		case endpointpicker.RunningRequests:
			value = s.Running
		case endpointpicker.WaitingQueue:
			value = s.Queue
		case endpointpicker.KVCacheUtilization:
			value = s.KV
		}
		if value > c.MaxValue {
			return false
		}
	}
	return true
}

// preferred implements llm-d's utilization-filter with fallbackOnEmpty: without an endpoint within
// the limits, it keeps all.
type preferred struct {
	*endpointpicker.UtilizationLimits
}

func (p preferred) narrow(v view, _ uint64) {
	for i := range v.c {
		v.c[i].out = !meets(p.UtilizationLimits, v.state(i))
	}
}

func byLabel(p endpointpicker.Instance) func(*endpoint.Endpoint, *endpoint.State) bool {
	label := p.Parameters.(*endpointpicker.ByLabel)
	return func(e *endpoint.Endpoint, _ *endpoint.State) bool { return label.Keeps(e.Labels) }
}

// concurrency returns the filter of llm-d's concurrency-detector.
func concurrency(p endpointpicker.Instance) func(*endpoint.Endpoint, *endpoint.State) bool {
	c := p.Parameters.(*endpointpicker.Concurrency)
	most := float64(c.Requests()) * (1 + c.Headroom)
	return func(_ *endpoint.Endpoint, s *endpoint.State) bool { return float64(s.InFlight) < most }
}
