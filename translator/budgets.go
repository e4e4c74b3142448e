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

// budgetTables hold the routes of each namespace to their budget of Envoy's time on the chains of
// Gateways of other namespaces.
type budgetTables struct {
	charges *graph.Table[string, *gatewayapi.Charge] // by route; only of routes that are bounded
	cuts    *graph.Table[budgetKey, gatewayapi.Cut]  // only of namespaces above their budget

	candidatesByNeighbour *graph.Index[string, *model.Candidate, string] // by their own keys: those that are bounded
	chargesByBudget       *graph.Index[string, *gatewayapi.Charge, budgetKey]
	chargesBySize         *graph.Index[string, *gatewayapi.Charge, sizeKey]
}

// budgetKey is a namespace with routes on a chain of another namespace's Gateway.
type budgetKey struct{ gateway, chain, namespace string }

func (k budgetKey) of() string     { return k.gateway }
func (k budgetKey) String() string { return k.gateway + " " + k.chain + " " + k.namespace }

func (k budgetKey) compare(o budgetKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), strings.Compare(k.chain, o.chain),
		strings.Compare(k.namespace, o.namespace))
}

// sizeKey is the routes of a budgetKey that cost less than 1<<size microseconds, and at least half
// as much.
type sizeKey struct {
	budgetKey
	size int
}

// sizes is how many sizes there are. The last one is above the largest budget, a minute.
const sizes = 28

func sizeOf(cost time.Duration) int { return min(bits.Len64(uint64(cost.Microseconds())), sizes-1) }

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
	t.cuts = graph.Declare(t.engine, graph.Table[budgetKey, gatewayapi.Cut]{
		Name:    "cuts",
		Order:   budgetKey.compare,
		Sources: []graph.Source[budgetKey]{t.chargesByBudget},
		Compute: t.cut,
	})
}

// budgetOf is what a route, by its key, is charged to.
func budgetOf(route string, on gatewayapi.ChainCharge) budgetKey {
	return budgetKey{on.Gateway, on.Chain, routeRef(route)[0].Namespace}
}

// cut adds up a namespace's routes only if they may be above their budget: else a change of one
// would look at all of them.
func (t *tables) cut(r *graph.Reader, key budgetKey) (none gatewayapi.Cut, ok bool) {
	gw, ok := t.gateways.Get(r, key.gateway)
	if !ok {
		return none, false
	}
	budget, bounded := gatewayapi.RouteBudget(gw)
	most := time.Duration(0)
	for size := range sizes {
		if n, _ := t.chargesBySize.Each(r, sizeKey{key, size}); n > 0 {
			most += time.Duration(n) * time.Microsecond << size
		}
	}
	if !bounded || most <= budget {
		return none, false
	}
	_, rows := t.chargesByBudget.Each(r, key)
	return gatewayapi.CutOf(budget, func(yield func(gatewayapi.Age, time.Duration) bool) {
		for route, c := range rows {
			for _, on := range c.Chains {
				if budgetOf(route, on) == key && !yield(c.Age, on.Cost.Time()) {
					return
				}
			}
		}
	})
}

// overBudget are the chains on which a route has no place because of its namespace's budget.
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
			if on.Gateway == at.Gateway && on.Chain == at.Chain && !cut.Takes(charge.Age, on.Cost.Time()) {
				losses = append(losses, gatewayapi.BudgetLoss(c.Route, cut.Budget, on))
			}
		}
	}
	return losses
}
