package picker

import (
	"maps"
	"math/bits"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Models is what a pool does with the models that requests name, and with the objectives. It must
// not be changed.
type Models struct {
	Named map[string]ModelRule // by the name in the request
	Other *ModelRule           // of any other name; nil: nothing is done
	// Objectives are priorities by the names that requests give: higher ones first, 0 for usual
	// requests.
	Objectives map[string]int32
}

// ModelRule is what is done with the requests for a model.
type ModelRule struct {
	Criticality schedule.Criticality // "": the pool's
	Targets     []ModelTarget        // the model is replaced by one of them; none: it stays
}

// ModelTarget is a model that a server has.
type ModelTarget struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight"` // at least 1
}

func (m *Models) equal(o *Models) bool {
	if m == nil || o == nil {
		return m == o
	}
	same := func(a, b ModelRule) bool { return a.Criticality == b.Criticality && slices.Equal(a.Targets, b.Targets) }
	return maps.EqualFunc(m.Named, o.Named, same) && maps.Equal(m.Objectives, o.Objectives) &&
		(m.Other == nil) == (o.Other == nil) && (m.Other == nil || same(*m.Other, *o.Other))
}

// modelRules are Models as picks read them.
type modelRules struct {
	of       *Models
	named    map[string]*modelRule
	other    *modelRule
	rewrites bool                               // some rule has targets
	draw     func(model string) *request.Target // target
}

type modelRule struct {
	criticality schedule.Criticality
	targets     []*request.Target
	until       []uint64 // the weights of the targets up to each of them, summed up
	drawn       atomic.Uint64
}

// golden is 2^64 divided by the golden ratio. Its multiples modulo 2^64 are spread so evenly that
// each target has its share of any number of consecutive requests, within a few requests (Weyl's
// sequence; Knuth, TAOCP 6.4). By lot, one of 20 runs of 10,000 requests is off by 1 %.
const golden = 0x9e3779b97f4a7c15

// newModelRules returns nil for nil. Pickers of a pool begin at different places: with one of start
// each.
func newModelRules(m *Models, start func() uint64) *modelRules {
	if m == nil {
		return nil
	}
	out := &modelRules{of: m, named: make(map[string]*modelRule, len(m.Named))}
	compile := func(r *ModelRule) *modelRule {
		c := &modelRule{criticality: r.Criticality}
		c.drawn.Store(start())
		var sum uint64
		for _, t := range r.Targets {
			sum += uint64(max(t.Weight, 1))
			c.targets, c.until = append(c.targets, request.NewTarget(t.Name)), append(c.until, sum)
		}
		out.rewrites = out.rewrites || len(c.targets) > 0
		return c
	}
	for name, r := range m.Named {
		out.named[name] = compile(&r)
	}
	if m.Other != nil {
		out.other = compile(m.Other)
	}
	out.draw = out.target
	return out
}

// rule returns nil for a model without one.
func (m *modelRules) rule(model string) *modelRule {
	if r := m.named[model]; r != nil || model == "" {
		return r
	}
	return m.other
}

// targets are the models of which one replaces a request's.
func (pool *pool) targets(model string) []ModelTarget {
	if pool.rules == nil || model == "" {
		return nil
	}
	if rule, ok := pool.rules.of.Named[model]; ok {
		return rule.Targets
	}
	if other := pool.rules.of.Other; other != nil {
		return other.Targets
	}
	return nil
}

// target chooses the model that a request's is replaced by; nil: it stays.
func (m *modelRules) target(model string) *request.Target {
	r := m.rule(model)
	switch {
	case r == nil || len(r.targets) == 0:
		return nil
	case len(r.targets) == 1:
		return r.targets[0]
	}
	n, _ := bits.Mul64(r.drawn.Add(golden), r.until[len(r.until)-1]) // as a fraction of 2^64
	return r.targets[sort.Search(len(r.until), func(i int) bool { return r.until[i] > n })]
}

// The header by which a request names an objective, and the same without llm-d's name.
const (
	objectiveHeader      = "x-llm-d-inference-objective"
	plainObjectiveHeader = "x-gateway-inference-objective"
)

// Priorities of requests for models of each criticality.
const (
	priorityCritical  = 1
	prioritySheddable = -1
)

// priority is how much a request counts: that of its objective, if headers are trusted and name one
// of the pool, else what the criticality of its model means. The inference extension, which has no
// models with a criticality any more, takes 0 for an objective that it does not have; here that
// would let a misspelled header move a Sheddable model ahead.
func (pool *pool) priority(r *extproc.Request) int32 {
	return pool.priorityOf(r.Headers.Header, r.Facts.Model)
}

// priorityOf is priority by a request's model and what header returns for its headers.
func (pool *pool) priorityOf(header func(string) []byte, model string) int32 {
	if pool.TrustHeaders && pool.rules != nil && len(pool.rules.of.Objectives) > 0 {
		name := header(objectiveHeader)
		if name == nil {
			name = header(plainObjectiveHeader)
		}
		if p, ok := pool.rules.of.Objectives[string(name)]; ok {
			return p
		}
	}
	c := pool.Criticality
	if pool.rules != nil {
		if rule := pool.rules.rule(model); rule != nil && rule.criticality != "" {
			c = rule.criticality
		}
	}
	return priorityFor(c)
}

// priorityFor is the priority of requests of a criticality.
func priorityFor(c schedule.Criticality) int32 {
	switch c {
	case schedule.Critical:
		return priorityCritical
	case schedule.Sheddable:
		return prioritySheddable
	}
	return 0
}

// criticality is what strategies read of a priority.
func criticality(priority int32) schedule.Criticality {
	switch {
	case priority > 0:
		return schedule.Critical
	case priority < 0:
		return schedule.Sheddable
	}
	return schedule.Standard
}

// sheds reports whether the pool's strategy sheds requests of a criticality while no endpoint has
// capacity.
func (pool *pool) sheds(c schedule.Criticality) bool {
	return c == schedule.Sheddable && schedule.ShedsFull(&pool.options)
}
