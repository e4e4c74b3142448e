package gatewayapi

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
)

// reasonBudget is the reason of a route that is not accepted because its namespace's routes take
// too much of Envoy's time; the specification leaves it open.
const reasonBudget gatewayv1.RouteConditionReason = "RouteBudgetExceeded"

// defaultBudget is what the routes of one namespace may take of Envoy's main thread for each change
// of a route configuration. A change without them takes 9 ms from its file to the first request,
// and estimates may be too low by half: 8 times as long.
const defaultBudget = 40 * time.Millisecond

// RouteBudget is what the routes of each namespace but the Gateway's own may take of Envoy's time
// on one chain. A Gateway that is not accepted has none: its proxies go on as they are.
func RouteBudget(gw *model.Gateway) (budget time.Duration, bounded bool) {
	switch {
	case gw.Fleet == nil:
		return 0, false
	case gw.Fleet.Routes != nil && gw.Fleet.Routes.BudgetMilliseconds > 0:
		return time.Duration(gw.Fleet.Routes.BudgetMilliseconds) * time.Millisecond, true
	}
	return defaultBudget, true
}

// Charge is what a route costs on the chains of Gateways of other namespaces.
type Charge struct {
	Age    Age
	Each   envoy.Cost // in one host
	Chains []ChainCharge
}

// ChainCharge is what a route costs on one chain, in all of its hosts.
type ChainCharge struct {
	Gateway, Chain string
	Cost           envoy.Cost
	Wide           bool // a hostname of the route covers others
}

func wildcard(host string) bool { return strings.HasPrefix(host, "*") }

// Age orders the routes of a namespace: older ones come first, then it goes by name.
type Age struct {
	Created    int64
	Name, Kind string
}

// AgeOf is a route's.
func AgeOf(c *model.Candidate) Age { return Age{c.Created, c.Route.Name, c.Route.Kind} }

// Compare orders two routes of one namespace.
func (a Age) Compare(o Age) int {
	return cmp.Or(cmp.Compare(a.Created, o.Created), strings.Compare(a.Name, o.Name), strings.Compare(a.Kind, o.Kind))
}

// Neighbours are the hosts that a route has on chains of requests of Gateways of other namespaces,
// without their costs.
func Neighbours(c *model.Candidate) (chains []ChainCharge) {
	own := c.Route.Namespace + "/"
	var listeners []string
	for _, parent := range c.Parents {
		for _, p := range parent.Places {
			if p.Stream || len(p.Hosts) == 0 || strings.HasPrefix(p.Gateway, own) {
				continue
			}
			key := p.Gateway + " " + p.Listener
			if slices.Contains(listeners, key) {
				continue
			}
			listeners = append(listeners, key) // another parent may name it again
			at := func(o ChainCharge) bool { return o.Gateway == p.Gateway && o.Chain == p.Chain }
			i := slices.IndexFunc(chains, at)
			if i < 0 {
				i, chains = len(chains), append(chains, ChainCharge{Gateway: p.Gateway, Chain: p.Chain})
			}
			chains[i].Cost.Hosts += uint32(len(p.Hosts))
			chains[i].Wide = chains[i].Wide || slices.ContainsFunc(p.Hosts, wildcard)
		}
	}
	return chains
}

// ChargeOf is what a candidate would cost on chains of other namespaces' Gateways; nil if it has no
// hosts there.
func ChargeOf(r store.Reader, backends Backends, c *model.Candidate) *Charge {
	charge := &Charge{Age: AgeOf(c), Chains: Neighbours(c)}
	if len(charge.Chains) == 0 {
		return nil
	}
	a := placed(c, nil)
	(&ruleBuilder{r: r, backends: backends, out: a}).build()
	charge.Each = costOf(a)
	for i := range charge.Chains {
		one := &charge.Chains[i].Cost
		*one = charge.Each.Times(int(one.Hosts))
	}
	return charge
}

// costOf is what a route costs in one host. Rules whose regular expressions are above the route's
// budget have none in Envoy.
func costOf(a *model.Attachment) envoy.Cost {
	sum := envoy.Cost{Hosts: 1}
	var own model.Expressions
	for i := range a.Rules {
		rule := &a.Rules[i]
		with := own.Add(rule.Expressions)
		over := !with.Within(routeBudget)
		if !over {
			own = with
		}
		for _, m := range rule.Matches {
			if over {
				m = envoy.WithoutExpressions(m)
			}
			sum = sum.Add(envoy.CostOf(&model.Route{Match: m, Action: &rule.Action}))
		}
	}
	return sum
}

// Cut is where the budget of a namespace's routes on a chain ends.
type Cut struct {
	Budget time.Duration
	// From is the oldest route that does not fit beside older ones; nil: all fit except for routes
	// that are above the budget alone.
	From *Age
	// Copies is the Cut of what routes of wildcard hostnames take again in narrower hosts, of half
	// the budget; nil: all of these routes stand there.
	Copies *Cut
}

// Takes reports whether a route has a place: routes that are newer than one without a place have
// none either.
func (c Cut) Takes(age Age, takes time.Duration) bool {
	return takes <= c.Budget && (c.From == nil || age.Compare(*c.From) < 0)
}

// CutOf is the Cut of routes with what each takes; false if all have a place.
func CutOf(budget time.Duration, routes iter.Seq2[Age, time.Duration]) (Cut, bool) {
	out := Cut{Budget: budget}
	var sum time.Duration
	alone := false
	for _, takes := range routes {
		if takes > budget { // it has no place whatever the others are
			alone = true
			continue
		}
		sum += takes
	}
	if sum <= budget {
		return out, alone
	}
	type route struct {
		Age
		takes time.Duration
	}
	var all []route
	for age, takes := range routes {
		if takes <= budget {
			all = append(all, route{age, takes})
		}
	}
	slices.SortFunc(all, func(a, b route) int { return a.Compare(b.Age) })
	sum = 0
	for i := range all {
		if sum += all[i].takes; sum > budget {
			out.From = &all[i].Age
			break
		}
	}
	return out, true
}

// BudgetLoss is that of a route which has no place on a chain because of its namespace's budget.
func BudgetLoss(route report.Ref, budget time.Duration, charge ChainCharge) model.Loss {
	takes, who, more := charge.Cost.Time(), "this route, which takes", ", has no room beside older ones"
	if takes > budget {
		who, more = "this route alone takes", ""
	}
	return model.Loss{Route: route, Gateway: charge.Gateway, Chain: charge.Chain, Over: fmt.Sprintf(
		"the routes of namespace %s may take %v of Envoy's time for each change on %s of Gateway %s, and %s %v (%v)%s",
		route.Namespace, budget, charge.Chain, charge.Gateway, who, takes.Round(10*time.Microsecond), charge.Cost,
		more)}
}

// CopiesLoss is that of a route which does not stand in narrower hosts because of the budget.
func CopiesLoss(route report.Ref, budget time.Duration, at ChainCharge, hosts int, takes time.Duration) model.Loss {
	return model.Loss{Route: route, Gateway: at.Gateway, Chain: at.Chain, Copies: true, Over: fmt.Sprintf(
		"the routes of namespace %s may take %v of Envoy's time for each change again in narrower hosts on %s of "+
			"Gateway %s. "+
			"This route has no room there: it takes %v in each of up to %d hosts, so no request for a narrower "+
			"hostname comes to it",
		route.Namespace, budget, at.Chain, at.Gateway, takes.Round(time.Microsecond), hosts)}
}

// budgetFix is what to write instead of a route without a place.
func budgetFix(loss model.Loss) string {
	return fmt.Sprintf(
		"write fewer hostnames, matches and conditions, attach the route to a Gateway of namespace %s, or "+
			"have the owner of Gateway %s raise routes.budgetMilliseconds in its EnvoyFleet", loss.Route.Namespace,
		loss.Gateway)
}
