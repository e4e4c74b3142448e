package envoy

import (
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// modelsRoute is the route of requests for the list of models, which our picker answers for all pools of the rule; nil where the main route
// does as well. It is needed where some of these requests do not reach our picker, or where Envoy ignores its immediate responses because
// the pool can spill. A share without a picker stays: a Service's models are not known.
func (b *builder) modelsRoute(r *model.Route, main *routev3.Route) *routev3.Route {
	f := r.Action.Forward
	if !slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool {
		return pooled(&w) && (w.Picker.Cluster.External() || w.Picker.Spills)
	}) {
		return nil
	}
	route := &routev3.Route{Name: r.Name + "#models", Match: routeMatch(r.Match)}
	matches := func(name, pattern string) *routev3.HeaderMatcher {
		return header(name, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(pattern)}})
	}
	route.Match.Headers = append(route.Match.Headers, matches(":method", "GET|HEAD"), matches(":path", `.*/v1/models(\?.*)?`))
	changeHeaders(route, r.Action)
	route.RequestBodyBufferLimit = main.RequestBodyBufferLimit
	route.TypedPerFilterConfig = main.TypedPerFilterConfig
	route.Action = b.routeAction(r, modelsCalls)
	return route
}

// rulePools lists the pools of a rule that our picker may know, in their order.
func rulePools(f *model.Forward) string {
	backends := f.Rule
	if backends == nil {
		backends = f.Backends
	}
	var pools []string
	for _, w := range backends {
		if !pooled(&w) {
			continue
		}
		if name := w.Picker.Pool.String(); !slices.Contains(pools, name) {
			pools = append(pools, name)
		}
	}
	return strings.Join(pools, ",")
}

// pooled reports whether requests for a backend may reach our picker.
func pooled(w *model.WeightedBackend) bool {
	return w.Picker != nil && w.Weight > 0 && !w.Picker.Pool.IsZero()
}
