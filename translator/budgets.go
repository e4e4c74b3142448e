package translator

import (
	"cmp"
	"math/bits"
	"strings"
	"time"

	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

type budgetTables struct {
	// The value n means that the filter chain has at most 1<<n hosts.
	crowds  *graph.Table[chainKey, int]
	charges *graph.Table[string, *gatewayapi.Charge] // only routes that have a budget
	cuts    *graph.Table[budgetKey, gatewayapi.Cut]

	candidatesByNeighbour *graph.Index[string, *model.Candidate, string]
	chargesByBudget       *graph.Index[string, *gatewayapi.Charge, budgetKey]
	chargesBySize         *graph.Index[string, *gatewayapi.Charge, sizeKey]
	candidatesByCrowd     *graph.Index[string, *model.Candidate, crowdKey]
	chargesByWide         *graph.Index[string, *gatewayapi.Charge, budgetKey]
	chargesByWideChain    *graph.Index[string, *gatewayapi.Charge, chainKey]
}

type budgetKey struct{ gateway, chain, namespace string }

func (k budgetKey) of() string     { return k.gateway }
func (k budgetKey) String() string { return k.gateway + " " + k.chain + " " + k.namespace }

func (k budgetKey) compare(o budgetKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), strings.Compare(k.chain, o.chain),
		strings.Compare(k.namespace, o.namespace))
}

// sizeKey selects routes that cost Envoy from 1<<(size-1) to below 1<<size microseconds.
type sizeKey struct {
	budgetKey
	size int
}

const sizes = 28

func sizeOf(cost time.Duration) int { return min(bits.Len64(uint64(cost.Microseconds())), sizes-1) }

type crowdKey struct {
	chainKey
	hosts int
}

// mostHosts is Gateway API's limit of a route's hostnames.
const mostHosts = 16

func (t *tables) declareBudgets() {
	t.candidatesByNeighbour = graph.NewIndex(t.candidates, "neighbour", func(key string, c *model.Candidate) []string {
		if len(gatewayapi.Neighbours(c)) == 0 {
			return nil
		}
		return []string{key}
	})
	t.charges = graph.Declare(t.engine, graph.Table[string, *gatewayapi.Charge]{
		Name:    "charges",
		Order:   order,
		Sources: []graph.Source[string]{t.candidatesByNeighbour},
		Compute: func(r *graph.Reader, key string) (*gatewayapi.Charge, bool) {
			c, ok := t.candidates.Get(r, key)
			if !ok {
				return nil, false
			}
			charge := gatewayapi.ChargeOf(r, inference.Backends{Tables: lookup{t}}, c)
			return charge, charge != nil
		},
	})
	t.chargesByBudget = graph.NewIndex(t.charges, "budget", func(key string, c *gatewayapi.Charge) (keys []budgetKey) {
		for _, on := range c.Chains {
			keys = append(keys, budgetOf(key, on))
		}
		return keys
	})
	t.chargesBySize = graph.NewIndex(t.charges, "size", func(key string, c *gatewayapi.Charge) (keys []sizeKey) {
		for _, on := range c.Chains {
			keys = append(keys, sizeKey{budgetOf(key, on), sizeOf(on.Cost.Time())})
		}
		return keys
	})
	t.declareCrowds()
	t.cuts = graph.Declare(t.engine, graph.Table[budgetKey, gatewayapi.Cut]{
		Name:    "cuts",
		Order:   budgetKey.compare,
		Sources: []graph.Source[budgetKey]{t.chargesByBudget},
		Compute: t.cut,
	})
}

// declareCrowds counts each chain's hosts roughly, so that one more host rarely changes the result.
func (t *tables) declareCrowds() {
	t.candidatesByCrowd = graph.NewIndex(t.candidates, "crowd", func(_ string, c *model.Candidate) (keys []crowdKey) {
		for _, parent := range c.Parents {
			for _, p := range parent.Places {
				if n := len(p.Hosts); n > 0 && !p.Stream {
					keys = append(keys, crowdKey{chainKey{p.Gateway, p.Chain}, min(n, mostHosts)})
				}
			}
		}
		return keys
	})
	t.chargesByWide = graph.NewIndex(t.charges, "wide", func(key string, c *gatewayapi.Charge) (keys []budgetKey) {
		for _, on := range c.Chains {
			if on.Wide {
				keys = append(keys, budgetOf(key, on))
			}
		}
		return keys
	})
	t.chargesByWideChain = graph.NewIndex(t.charges, "wideChain",
		func(_ string, c *gatewayapi.Charge) (keys []chainKey) {
			for _, on := range c.Chains {
				if on.Wide {
					keys = append(keys, chainKey{on.Gateway, on.Chain})
				}
			}
			return keys
		})
	t.crowds = graph.Declare(t.engine, graph.Table[chainKey, int]{
		Name:    "crowds",
		Order:   chainKey.compare,
		Sources: []graph.Source[chainKey]{t.chargesByWideChain},
		Compute: func(r *graph.Reader, key chainKey) (int, bool) {
			sum := 0
			for hosts := 1; hosts <= mostHosts; hosts++ {
				n, _ := t.candidatesByCrowd.Each(r, crowdKey{key, hosts})
				sum += n * hosts
			}
			return bits.Len(uint(max(sum, 1) - 1)), true
		},
	})
}

func budgetOf(route string, on gatewayapi.ChainCharge) budgetKey {
	return budgetKey{on.Gateway, on.Chain, routeRef(route)[0].Namespace}
}

// cut reads a namespace's routes only if they may exceed the budget. Otherwise a change of one
// route would read all of them.
func (t *tables) cut(r *graph.Reader, key budgetKey) (none gatewayapi.Cut, ok bool) {
	gw, ok := t.gateways.Get(r, key.gateway)
	if !ok {
		return none, false
	}
	budget, bounded := gatewayapi.RouteBudget(gw)
	if !bounded {
		return none, false
	}
	var copies *gatewayapi.Cut
	if n, wide := t.chargesByWide.Each(r, key); n > 0 {
		crowd, _ := t.crowds.Get(r, chainKey{key.gateway, key.chain})
		cut, over := gatewayapi.CutOf(budget/2, func(yield func(gatewayapi.Age, time.Duration) bool) {
			for _, c := range wide {
				if !yield(c.Age, c.Each.Time()<<crowd) {
					return
				}
			}
		})
		if over {
			copies = &cut
		}
	}
	most := time.Duration(0)
	for size := range sizes {
		if n, _ := t.chargesBySize.Each(r, sizeKey{key, size}); n > 0 {
			most += time.Duration(n) * time.Microsecond << size
		}
	}
	if most <= budget {
		return gatewayapi.Cut{Budget: budget, Copies: copies}, copies != nil
	}
	_, rows := t.chargesByBudget.Each(r, key)
	cut, over := gatewayapi.CutOf(budget, func(yield func(gatewayapi.Age, time.Duration) bool) {
		for route, c := range rows {
			for _, on := range c.Chains {
				if budgetOf(route, on) == key && !yield(c.Age, on.Cost.Time()) {
					return
				}
			}
		}
	})
	cut.Copies = copies
	return cut, over || copies != nil
}

func (t *tables) overBudget(r *graph.Reader, key string, c *model.Candidate) (losses []model.Loss) {
	for _, at := range gatewayapi.Neighbours(c) {
		cut, ok := t.cuts.Get(r, budgetOf(key, at))
		if !ok {
			continue
		}
		charge, ok := t.charges.Get(r, key)
		if !ok {
			continue
		}
		for _, on := range charge.Chains {
			if on.Gateway != at.Gateway || on.Chain != at.Chain {
				continue
			}
			if !cut.Takes(charge.Age, on.Cost.Time()) {
				losses = append(losses, gatewayapi.BudgetLoss(c.Route, cut.Budget, on))
			} else if on.Wide && cut.Copies != nil {
				crowd, _ := t.crowds.Get(r, chainKey{on.Gateway, on.Chain})
				if each := charge.Each.Time(); !cut.Copies.Takes(charge.Age, each<<crowd) {
					losses = append(losses, gatewayapi.CopiesLoss(c.Route, cut.Copies.Budget, on, 1<<crowd, each))
				}
			}
		}
	}
	return losses
}
