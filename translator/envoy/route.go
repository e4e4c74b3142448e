package envoy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
)

// No cluster has this name: requests get the route's cluster_not_found_response_code.
const unresolved = "unresolved"

func (b *builder) route(vh *model.VirtualHost, r *model.Route) []*routev3.Route {
	if limit := maxGateways(r.Action.Forward); limit > 0 {
		return append(b.ringRoutes(vh, r, limit), b.allRoutes(vh, r)...)
	}
	return b.allRoutes(vh, r)
}

func (b *builder) allRoutes(vh *model.VirtualHost, r *model.Route) []*routev3.Route {
	switch f := r.Action.Forward; {
	case f != nil && faithful(f):
		return b.sessionRoutes(vh, r)
	case f != nil:
		return b.backendRoutes(vh, r)
	}
	return []*routev3.Route{b.singleRoute(vh, r)}
}

func (b *builder) backendRoutes(vh *model.VirtualHost, r *model.Route) []*routev3.Route {
	f := r.Action.Forward
	switch {
	case weightSum(f.Backends) == 0:
		return []*routev3.Route{b.singleRoute(vh, r)}
	case ownFilters(f), mixed(f):
		return b.splitRoutes(vh, r)
	}
	return b.bodyRoutes(r, b.singleRoute(vh, r))
}

func (b *builder) singleRoute(vh *model.VirtualHost, r *model.Route) *routev3.Route {
	main := &routev3.Route{Name: r.Name, Match: routeMatch(r.Match)}
	a := r.Action
	changeHeaders(main, a)
	if a.CORS != nil {
		put(&main.TypedPerFilterConfig, filterCORS, b.cors(a.CORS))
	}
	if a.Auth != nil {
		put(&main.TypedPerFilterConfig, filterAuthz, b.externalAuth(a.Auth))
	}
	if f := a.Forward; f != nil && f.Session != nil && !anyImported(f) {
		put(&main.TypedPerFilterConfig, filterSession, b.session(f.Session))
	}
	switch {
	case a.Redirect != nil:
		b.redirect(vh, main, r.Match, a.Redirect)
	case a.Direct != nil:
		main.Action = directResponse(a.Direct)
	case a.Forward == nil:
		b.fail("route %s has no action", r.Name)
	case weightSum(a.Forward.Backends) == 0:
		main.Action = directResponse(&model.Direct{
			Status: noBackend(r.Match), Body: "no backend of this route has a weight above zero",
		})
	}
	return main
}

func put(to *map[string]*anypb.Any, filter string, config *anypb.Any) {
	if *to == nil {
		*to = map[string]*anypb.Any{}
	}
	(*to)[filter] = config
}

// HTTPRouteRule requires 500. For gRPC, Envoy turns 503 into UNAVAILABLE (GRPCRouteRule).
func noBackend(m model.Match) uint32 {
	if m.GRPC != nil {
		return 503
	}
	return 500
}

func (b *builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

func weightSum(backends []model.WeightedBackend) uint64 {
	var sum uint64
	for _, w := range backends {
		sum += uint64(w.Weight)
	}
	return sum
}

func directResponse(d *model.Direct) *routev3.Route_DirectResponse {
	r := &routev3.DirectResponseAction{Status: d.Status}
	if d.Body != "" {
		r.Body = inline(d.Body)
	}
	return &routev3.Route_DirectResponse{DirectResponse: r}
}

// Even a single backend is a weighted cluster, so that pickers, headers and unresolved backends
// have one form.
func (b *builder) routeAction(r *model.Route, calls pickerCalls) *routev3.Route_Route {
	f := r.Action.Forward
	calls.exact, calls.gated = r.ExactUsage, len(r.Gates) > 0
	ra := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_WeightedClusters{
			WeightedClusters: &routev3.WeightedCluster{Clusters: b.weightedClusters(f, calls)},
		},
		ClusterNotFoundResponseCode: routev3.RouteAction_INTERNAL_SERVER_ERROR,
		// Envoy's default of 15 s would end most answers of a model.
		Timeout:     seconds(0),
		IdleTimeout: seconds(idleTimeout(f)),
		RetryPolicy: b.retryPolicy(f),

		RequestMirrorPolicies: b.mirrors(f.Mirrors),
	}
	if f.Timeout != nil {
		ra.Timeout = seconds(*f.Timeout)
	}
	if r.Match.GRPC != nil {
		ra.ClusterNotFoundResponseCode = routev3.RouteAction_SERVICE_UNAVAILABLE
	}
	b.rewrite(r.Match, f, ra)
	return &routev3.Route_Route{Route: ra}
}

// idleTimeout is the only limit for a slow pick, because the route's timeout starts after the pick.
// A user's timeout takes precedence: a model may be silent that long.
func idleTimeout(f *model.Forward) time.Duration {
	picked := slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool { return w.Picker != nil })
	switch t := f.Timeout; {
	case t != nil && *t > 0 && picked:
		return *t
	case t != nil && *t > 0:
		return max(streamIdle, *t)
	case t == nil && slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool { return w.External }):
		return silentPicker
	}
	return streamIdle
}

func changeHeaders(r *routev3.Route, a *model.Action) {
	r.RequestHeadersToAdd = additions(a.RequestHeaders)
	r.RequestHeadersToRemove = a.RequestHeaders.Remove
	r.ResponseHeadersToAdd = additions(a.ResponseHeaders)
	r.ResponseHeadersToRemove = a.ResponseHeaders.Remove
}

func additions(c model.HeaderChanges) []*corev3.HeaderValueOption {
	var out []*corev3.HeaderValueOption
	add := func(headers []model.Header, action corev3.HeaderValueOption_HeaderAppendAction) {
		for _, h := range headers {
			out = append(out, &corev3.HeaderValueOption{
				// Envoy reads %...% in values as commands.
				Header:         &corev3.HeaderValue{Key: h.Name, Value: strings.ReplaceAll(h.Value, "%", "%%")},
				AppendAction:   action,
				KeepEmptyValue: true,
			})
		}
	}
	add(c.Set, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	add(c.Add, corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	return out
}
