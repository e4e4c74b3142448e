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

const reasonBudget gatewayv1.RouteConditionReason = "RouteBudgetExceeded"

// defaultBudget is how much of Envoy's time a namespace's routes may add to each change. Without
// them, a change takes 9 ms. With them, it takes up to 8 times as long, because Envoy may exceed
// the estimate by half.
const defaultBudget = 40 * time.Millisecond

// RouteBudget returns how much of Envoy's time the routes of one namespace may take on a filter
// chain. The budget holds for all namespaces except the Gateway's own. If bounded is false, there
// is no limit.
func RouteBudget(gw *model.Gateway) (budget time.Duration, bounded bool) {
	switch {
	case gw.Fleet == nil:
		return 0, false
	case gw.Fleet.Routes != nil && gw.Fleet.Routes.BudgetMilliseconds > 0:
		return time.Duration(gw.Fleet.Routes.BudgetMilliseconds) * time.Millisecond, true
	}
	return defaultBudget, true
}

// Charge is a route's cost on the filter chains of other namespaces' Gateways.
type Charge struct {
	Age    Age
	Each   envoy.Cost // cost in one host
	Chains []ChainCharge
}

// ChainCharge is a route's cost on one filter chain, in all of its hosts.
type ChainCharge struct {
	Gateway, Chain string
	Cost           envoy.Cost
	Wide           bool // a hostname of the route covers other hostnames
}

func wildcard(host string) bool { return strings.HasPrefix(host, "*") }

// Age orders a namespace's routes: older routes first, then by name.
type Age struct {
	Created    int64
	Name, Kind string
}

// AgeOf returns a route's Age.
func AgeOf(c *model.Candidate) Age { return Age{c.Created, c.Route.Name, c.Route.Kind} }

func (a Age) Compare(o Age) int {
	return cmp.Or(cmp.Compare(a.Created, o.Created), strings.Compare(a.Name, o.Name), strings.Compare(a.Kind, o.Kind))
}

// Neighbours returns the filter chains of other namespaces' Gateways on which a route has hosts. Of
// Cost, only Hosts is set.
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
			listeners = append(listeners, key)
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

// ChargeOf returns a route's cost on filter chains of other namespaces' Gateways, or nil if the
// route has no hosts there.
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

// costOf omits the regular expressions of rules above the route's budget for expressions, because
// Envoy does not get them.
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

// Cut limits a namespace's routes on a filter chain.
type Cut struct {
	Budget time.Duration
	// From is the oldest route that exceeds the budget together with all older routes, or nil.
	From *Age
	// Copies is the Cut for copies of wildcard routes in virtual hosts of more specific hostnames,
	// with half of the budget. It is nil if all copies fit.
	Copies *Cut
}

// Takes reports whether a route is within the limit: it is older than From, and its own cost does
// not exceed the budget.
func (c Cut) Takes(age Age, takes time.Duration) bool {
	return takes <= c.Budget && (c.From == nil || age.Compare(*c.From) < 0)
}

// CutOf returns the Cut of routes with their costs, or false if all routes fit.
func CutOf(budget time.Duration, routes iter.Seq2[Age, time.Duration]) (Cut, bool) {
	out := Cut{Budget: budget}
	var sum time.Duration
	alone := false
	for _, takes := range routes {
		if takes > budget {
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

// BudgetLoss returns the loss of a route that exceeds the budget of a filter chain.
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

// CopiesLoss returns the loss of a route that is not copied into virtual hosts of more specific
// hostnames.
func CopiesLoss(route report.Ref, budget time.Duration, at ChainCharge, hosts int, takes time.Duration) model.Loss {
	return model.Loss{Route: route, Gateway: at.Gateway, Chain: at.Chain, Copies: true, Over: fmt.Sprintf(
		"the routes of namespace %s may take %v of Envoy's time for each change again in narrower hosts on %s of "+
			"Gateway %s. "+
			"This route has no room there: it takes %v in each of up to %d hosts, so no request for a narrower "+
			"hostname comes to it",
		route.Namespace, budget, at.Chain, at.Gateway, takes.Round(time.Microsecond), hosts)}
}

func budgetFix(loss model.Loss) string {
	return fmt.Sprintf(
		"write fewer hostnames, matches and conditions, attach the route to a Gateway of namespace %s, or "+
			"have the owner of Gateway %s raise routes.budgetMilliseconds in its EnvoyFleet", loss.Route.Namespace,
		loss.Gateway)
}
