package gatewayapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

type problem struct {
	field  string
	reason gatewayv1.RouteConditionReason
	text   string
	fix    string
}

// ruleBuilder translates a route's rules. A rule with a problem answers 500 for each valid match,
// so that other rules do not take its traffic.
type ruleBuilder struct {
	r        store.Reader
	backends Backends
	out      *model.Attachment
	closed   bool

	dropped    []int
	unread     bool
	problems   []problem
	unresolved []report.Condition
}

func (b *ruleBuilder) build() {
	switch key := b.out.Route.Key(); b.out.Route.Kind {
	case "HTTPRoute":
		if o, ok := store.HTTPRoutes.Get(b.r, key); ok {
			b.httpRules(o.Spec.Rules)
		}
	case "GRPCRoute":
		if o, ok := store.GRPCRoutes.Get(b.r, key); ok {
			b.grpcRules(o.Spec.Rules)
		}
	case "TLSRoute":
		if o, ok := store.TLSRoutes.Get(b.r, key); ok && !b.closed {
			for i, spec := range o.Spec.Rules {
				b.stream(spec.Name, spec.BackendRefs, i)
			}
		}
	case "TCPRoute":
		if o, ok := store.TCPRoutes.Get(b.r, key); ok && !b.closed {
			for i, spec := range o.Spec.Rules {
				b.stream(spec.Name, spec.BackendRefs, i)
			}
		}
	case "UDPRoute":
		if o, ok := store.UDPRoutes.Get(b.r, key); ok && !b.closed {
			for i, spec := range o.Spec.Rules {
				b.stream(spec.Name, spec.BackendRefs, i)
			}
		}
	}
	b.out.Backends = sorted(b.out.Backends, strings.Compare)
	b.out.Clusters = sorted(b.out.Clusters, model.ClusterID.Compare)
	b.out.Hops = sorted(b.out.Hops, model.HopID.Compare)
	for _, p := range b.problems {
		b.out.Findings = append(b.out.Findings, finding(b.out.Route, p.field, p.text, p.fix))
	}
}

func sorted[T comparable](list []T, order func(a, b T) int) []T {
	slices.SortFunc(list, order)
	return slices.Compact(list)
}

func (b *ruleBuilder) httpRules(rules []gatewayv1.HTTPRouteRule) {
	if len(rules) == 0 { // Gateway API's default rule
		rules = []gatewayv1.HTTPRouteRule{{}}
	}
	for i := range rules {
		spec := &rules[i]
		b.out.Rules = append(b.out.Rules,
			b.rule(spec, i, func(field string) []model.Match { return matches(b, spec.Matches, b.match, field) }))
	}
}

func (b *ruleBuilder) rule(spec *gatewayv1.HTTPRouteRule, i int, matches func(field string) []model.Match) model.Rule {
	field := fmt.Sprintf("spec.rules[%d]", i)
	rule := model.Rule{Index: i, Name: string(ptr.Deref(spec.Name, ""))}
	if b.closed {
		b.closedRule(&rule, field, matches)
		return rule
	}
	before := len(b.problems)
	rule.Matches = matches(field)
	rule.Action = b.action(spec, rule.Matches, field, before)
	if len(b.problems) > before {
		b.dropped = append(b.dropped, i)
		rule.Action = b.errorAction("This route's configuration is not supported.")
	}
	rule.Expressions = expressions(&rule)
	return rule
}

func (b *ruleBuilder) errorAction(body string) model.Action {
	status := uint32(500)
	if b.grpc() {
		status = 503
	}
	return model.Action{Direct: &model.Direct{Status: status, Body: body}}
}

func (b *ruleBuilder) grpc() bool { return b.out.Route.Kind == "GRPCRoute" }

func (b *ruleBuilder) streams() bool {
	return b.out.Route.Kind == "TLSRoute" || b.out.Route.Kind == "TCPRoute" || b.datagrams()
}

func (b *ruleBuilder) datagrams() bool { return b.out.Route.Kind == store.UDPRoutes.Kind() }

func (b *ruleBuilder) carried() string { return carried(b.out.Route.Kind) }

func carried(kind string) string {
	switch kind {
	case store.UDPRoutes.Kind():
		return "datagrams"
	case store.TCPRoutes.Kind(), store.TLSRoutes.Kind():
		return "connections"
	}
	return "requests"
}

func (b *ruleBuilder) answered() string {
	switch {
	case b.datagrams():
		return "datagrams for it are dropped"
	case b.streams():
		return "connections for it are closed at once"
	case b.grpc():
		return "requests for it are answered UNAVAILABLE"
	}
	return "requests for it are answered 500"
}

func (b *ruleBuilder) elsewhere() string {
	if !b.unread {
		return ""
	}
	return ", or follow other rules if only a match that cannot be read selects them"
}

func (b *ruleBuilder) action(spec *gatewayv1.HTTPRouteRule, matches []model.Match, field string,
	before int) model.Action {
	f := b.filters(spec.Filters, matches, field+".filters", false)
	action := model.Action{RequestHeaders: f.request, ResponseHeaders: f.response, CORS: f.cors, Auth: f.auth}
	timeout, perTry := b.timeouts(spec.Timeouts, field+".timeouts")
	retry := b.retry(spec.Retry, field+".retry")
	session := b.session(spec, matches, field+".sessionPersistence")
	shares := b.shares(spec.BackendRefs, matches, field)
	if f.redirect != nil && len(spec.BackendRefs) > 0 {
		b.problem(field+".backendRefs", gatewayv1.RouteReasonIncompatibleFilters,
			"a rule with a RequestRedirect filter cannot have backendRefs", "remove one of them")
	}
	if len(b.problems) > before {
		return action
	}
	if f.fails {
		return b.errorAction("This route asks a service that does not exist.")
	}
	b.out.Clusters = append(b.out.Clusters, f.clusters...)
	if f.redirect != nil {
		action.Redirect = f.redirect
		return action
	}
	b.need(shares)
	backends := weigh(shares)
	if !slices.ContainsFunc(backends, func(w model.WeightedBackend) bool { return !w.Cluster.IsZero() }) {
		action.Direct = b.errorAction("This route has no backend.").Direct
		return action
	}
	action.Forward = &model.Forward{
		Backends: backends, RewriteHost: f.rewriteHost, RewritePath: f.rewritePath,
		Timeout: timeout, BackendTimeout: perTry, Retry: retry, Mirrors: f.mirrors, Session: session,
	}
	return action
}

func (b *ruleBuilder) need(shares []share) {
	for _, s := range shares {
		b.out.Clusters = append(b.out.Clusters, s.clusters...)
		b.out.Hops = append(b.out.Hops, s.hops...)
	}
}

func (b *ruleBuilder) problem(field string, reason gatewayv1.RouteConditionReason, text, fix string) {
	b.problems = append(b.problems, problem{field, reason, text, fix})
}

func (b *ruleBuilder) warn(field, text, fix string) {
	b.out.Findings = append(b.out.Findings, warning(b.out.Route, field, text, fix))
}

// If all rules have problems, the route is not accepted. If some rules have problems, the route is
// PartiallyInvalid (RouteConditionPartiallyInvalid: "Dropped Rule").
func (b *ruleBuilder) conditions(parent []report.Condition) []report.Condition {
	if len(b.dropped) == 0 || parent[0].Status != report.True {
		return parent
	}
	messages := make([]string, 0, len(b.problems))
	for _, p := range b.problems {
		messages = append(messages, p.field+": "+p.text)
	}
	message := strings.Join(messages, "; ")
	if len(b.dropped) == len(b.out.Rules) {
		return []report.Condition{falseCondition(gatewayv1.RouteConditionAccepted, b.problems[0].reason, message)}
	}
	names := make([]string, 0, len(b.dropped))
	for _, i := range b.dropped {
		names = append(names, strconv.Itoa(i))
	}
	c := trueCondition(gatewayv1.RouteConditionPartiallyInvalid, b.problems[0].reason)
	c.Message = "Dropped Rule " + strings.Join(names, ", ") + " (" + b.answered() + b.elsewhere() + "): " + message
	return append(parent, c)
}

func (b *ruleBuilder) resolvedRefs() report.Condition {
	if len(b.unresolved) == 0 {
		return trueCondition(gatewayv1.RouteConditionResolvedRefs, gatewayv1.RouteReasonResolvedRefs)
	}
	c := b.unresolved[0]
	for _, more := range b.unresolved[1:] {
		if !strings.Contains(c.Message, more.Message) {
			c.Message += "; " + more.Message
		}
	}
	return c
}
