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

// Models are a pool's immutable rules for models and objectives.
type Models struct {
	Named map[string]ModelRule
	Other *ModelRule // may be nil
	// Objectives maps objectives to priorities; higher goes first, and 0 is the default.
	Objectives map[string]int32
}

// ModelRule decides a model's criticality and replacements.
type ModelRule struct {
	Criticality schedule.Criticality // "" means the pool's criticality
	Targets     []ModelTarget        // replacements of the model; if empty, the model stays
}

// ModelTarget is a replacement model.
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

type modelRules struct {
	models   *Models
	named    map[string]*modelRule
	other    *modelRule
	rewrites bool
	draw     func(model string) *request.Target
}

type modelRule struct {
	criticality schedule.Criticality
	targets     []*request.Target
	until       []uint64 // for each target, the sum of the weights up to this target
	drawn       atomic.Uint64
}

// golden is 2^64 divided by the golden ratio. Its multiples modulo 2^64 are evenly distributed, so
// each target gets its share in any run of requests (Weyl's sequence; Knuth, TAOCP 6.4).
const golden = 0x9e3779b97f4a7c15

func newModelRules(m *Models, start func() uint64) *modelRules {
	if m == nil {
		return nil
	}
	out := &modelRules{models: m, named: make(map[string]*modelRule, len(m.Named))}
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

func (m *modelRules) rule(model string) *modelRule {
	if r := m.named[model]; r != nil || model == "" {
		return r
	}
	return m.other
}

func (pool *pool) targets(model string) []ModelTarget {
	if pool.rules == nil || model == "" {
		return nil
	}
	if rule, ok := pool.rules.models.Named[model]; ok {
		return rule.Targets
	}
	if other := pool.rules.models.Other; other != nil {
		return other.Targets
	}
	return nil
}

func (m *modelRules) target(model string) *request.Target {
	r := m.rule(model)
	switch {
	case r == nil || len(r.targets) == 0:
		return nil
	case len(r.targets) == 1:
		return r.targets[0]
	}
	n, _ := bits.Mul64(r.drawn.Add(golden), r.until[len(r.until)-1]) // scales the draw to the sum of the weights
	return r.targets[sort.Search(len(r.until), func(i int) bool { return r.until[i] > n })]
}

const (
	objectiveHeader      = "x-llm-d-inference-objective"
	plainObjectiveHeader = "x-gateway-inference-objective"
)

const (
	priorityCritical  = 1
	prioritySheddable = -1
)

// priority returns the priority of the objective that the request's header names. The header counts
// only if the pool trusts headers or an access policy of this cluster admitted the caller.
// Without a known objective, the criticality of the request's model decides. The inference
// extension uses priority 0 instead, so a misspelled header promotes a Sheddable model.
func (pool *pool) priority(r *extproc.Request) int32 {
	trusted := func() bool {
		by := caller(r)
		return pool.TrustHeaders || len(by) > 0 && !ofMember(by)
	}
	return pool.priorityOf(trusted, r.Headers.Header, r.Facts.Model)
}

func (pool *pool) trustsHeaders() bool { return pool.TrustHeaders }

func (pool *pool) priorityOf(trusted func() bool, header func(string) []byte, model string) int32 {
	if pool.rules != nil && len(pool.rules.models.Objectives) > 0 && trusted() {
		name := header(objectiveHeader)
		if name == nil {
			name = header(plainObjectiveHeader)
		}
		if p, ok := pool.rules.models.Objectives[string(name)]; ok {
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

func priorityFor(c schedule.Criticality) int32 {
	switch c {
	case schedule.Critical:
		return priorityCritical
	case schedule.Sheddable:
		return prioritySheddable
	}
	return 0
}

func criticality(priority int32) schedule.Criticality {
	switch {
	case priority > 0:
		return schedule.Critical
	case priority < 0:
		return schedule.Sheddable
	}
	return schedule.Standard
}

func (pool *pool) sheds(c schedule.Criticality) bool {
	return c == schedule.Sheddable && schedule.ShedsFull(&pool.options)
}
