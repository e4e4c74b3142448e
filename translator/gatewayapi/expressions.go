package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
)

const reasonExpressions gatewayv1.RouteConditionReason = "TooManyRegularExpressions"

// These budgets limit regular expressions. With each change of a route configuration, Envoy
// compiles all of its expressions on the main thread, in 1 to 3 us for each instruction. An
// expression takes 3 KiB, 20 bytes for each instruction, and up to 2.8 MiB of states under hostile
// requests. So 512 expressions fit into Envoy's default heap.
var (
	routeBudget     = model.Expressions{Number: 128, Size: 10_000}
	namespaceBudget = model.Expressions{Number: 256, Size: 25_000}
	gatewayBudget   = model.Expressions{Number: 512, Size: 50_000}
)

// Share returns a namespace's budget for expressions on a Gateway with routes of this many
// namespaces.
func Share(namespaces int) model.Expressions {
	n := uint32(max(1, namespaces))
	return model.Expressions{
		Number: min(namespaceBudget.Number, gatewayBudget.Number/n),
		Size:   min(namespaceBudget.Size, gatewayBudget.Size/n),
	}
}

// Budget limits the regular expressions of routes in a virtual host.
type Budget struct {
	Over  func(a *model.Attachment, rule int) bool // whether a rule, by its index, has an Overrun
	Wider model.Expressions                        // limit for all routes of wider hostnames together
}

func expressions(rule *model.Rule) (sum model.Expressions) {
	for _, m := range rule.Matches {
		sum.Number += uint32(envoy.Matchers(m))
	}
	if sum.IsZero() || sum.Number > routeBudget.Number {
		return sum
	}
	sum = model.Expressions{}
	for _, m := range rule.Matches {
		if envoy.Matchers(m) > 0 {
			sum = sum.Add(envoy.Expressions(&model.Route{Match: m, Action: &rule.Action}))
		}
	}
	return sum
}

// HasExpressions reports whether a route uses regular expressions.
func HasExpressions(a *model.Attachment) bool {
	return slices.ContainsFunc(a.Rules, func(r model.Rule) bool { return !r.Expressions.IsZero() })
}

// Overruns returns the rules of a namespace's routes on a Gateway whose expressions exceed the
// route's budget or the namespace's share. The share goes to older routes first.
func Overruns(gateway string, namespaces int, attached []*model.Attachment) (out []model.Overrun) {
	attached = slices.SortedFunc(slices.Values(attached), func(a, b *model.Attachment) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.Route.Name, b.Route.Name),
			strings.Compare(a.Route.Kind, b.Route.Kind))
	})
	share := Share(namespaces)
	var used model.Expressions
	for _, a := range attached {
		var own model.Expressions
		hosts := HostsOn(gateway, a)
		over := func(r *model.Rule, format string, args ...any) {
			out = append(out,
				model.Overrun{Gateway: gateway, Route: store.TargetOf(a.Route),
					Rule: r.Index, Budget: fmt.Sprintf(format, args...)})
		}
		for i := range a.Rules {
			r := &a.Rules[i]
			if r.Expressions.IsZero() {
				continue
			}
			route, tenant := own.Add(r.Expressions), used.Add(r.Expressions.Times(hosts))
			switch {
			case !route.Within(routeBudget):
				over(r, "the budget of a route, %s", expressionText(routeBudget))
			case !tenant.Within(share):
				over(r, "the share of namespace %s on Gateway %s, which has %s with routes: %s%s", a.Route.Namespace,
					gateway, namespacesText(namespaces), expressionText(share), timesText(hosts))
			default:
				own, used = route, tenant
			}
		}
	}
	slices.SortFunc(out, func(a, b model.Overrun) int {
		return cmp.Or(strings.Compare(a.Route, b.Route), cmp.Compare(a.Rule, b.Rule))
	})
	return out
}

func expressionText(e model.Expressions) string {
	return fmt.Sprintf("%d expressions with %d instructions", e.Number, e.Size)
}

func timesText(hosts int) string {
	if hosts == 1 {
		return ""
	}
	return fmt.Sprintf("; each expression counts %d times, once for each hostname of the route on a listener", hosts)
}

func namespacesText(n int) string {
	if n == 1 {
		return "1 namespace"
	}
	return fmt.Sprintf("%d namespaces", n)
}

// HasHost reports whether a host of a filter chain is the route's own, and not of a wider hostname.
func HasHost(a *model.Attachment, gateway, chain, host string) bool {
	return slices.ContainsFunc(a.Places, func(p model.Place) bool {
		return p.Gateway == gateway && p.Chain == chain && slices.Contains(p.Hosts, host)
	})
}

// HasWildcard reports whether a route has a wildcard host on a Gateway.
func HasWildcard(gateway string, a *model.Attachment) bool {
	return slices.ContainsFunc(a.Places, func(p model.Place) bool {
		return p.Gateway == gateway && slices.ContainsFunc(p.Hosts, wildcard)
	})
}

// HostsOn counts a route's own virtual hosts on a Gateway.
func HostsOn(gateway string, a *model.Attachment) (n int) {
	for _, p := range a.Places {
		if p.Gateway == gateway && !p.Stream {
			n += len(p.Hosts)
		}
	}
	return n
}

func overrun(a *model.Attachment, conditions []report.Condition, overruns []model.Overrun) []report.Condition {
	b := ruleBuilder{out: a}
	for _, o := range overruns {
		b.dropped = append(b.dropped, o.Rule)
		b.problems = append(b.problems,
			problem{field: overrunField(o), reason: reasonExpressions, text: overrunText(o)})
	}
	now, rest := b.conditions(slices.Clone(conditions[:1])), conditions[1:]
	const partially = string(gatewayv1.RouteConditionPartiallyInvalid)
	switch before := report.Find(rest, partially); {
	case before == nil:
		return append(now, rest...)
	case len(now) > 1: // the rules are also invalid for other reasons
		now[1].Reason, now[1].Message = before.Reason, before.Message+"; "+now[1].Message
	}
	return append(now,
		slices.DeleteFunc(slices.Clone(rest), func(c report.Condition) bool { return c.Type == partially })...)
}

func overrunField(o model.Overrun) string { return fmt.Sprintf("spec.rules[%d]", o.Rule) }

func overrunText(o model.Overrun) string { return "its regular expressions are above " + o.Budget }
