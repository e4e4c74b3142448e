package envoy

import (
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/penstock-project/penstock/translator/model"
)

const million = 1_000_000

func fraction(n uint32) *corev3.RuntimeFractionalPercent {
	return &corev3.RuntimeFractionalPercent{
		DefaultValue: &typev3.FractionalPercent{Numerator: n, Denominator: typev3.FractionalPercent_MILLION},
	}
}

func ownFilters(f *model.Forward) bool {
	return slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool { return w.Own != nil && w.Weight > 0 })
}

// An import with several exporting clusters needs retries that differ from the retries of the
// rule's other backends.
func mixed(f *model.Forward) bool {
	taking, members := 0, false
	for _, w := range f.Backends {
		if w.Weight > 0 {
			taking, members = taking+1, members || len(w.Members) > 0
		}
	}
	return members && taking > 1
}

// Envoy's weighted clusters can only change headers, so each backend of the rule gets a route. A
// request has one random number for all routes, so each fraction includes the earlier fractions.
// Shares are exact to a millionth.
func (b *builder) splitRoutes(vh *model.VirtualHost, r *model.Route) []*routev3.Route {
	f := r.Action.Forward
	sum := weightSum(f.Backends)
	var routes []*routev3.Route
	var taken uint64
	var from uint32
	for i := range f.Backends {
		w := f.Backends[i]
		if w.Weight == 0 {
			continue
		}
		taken += uint64(w.Weight)
		to := uint32(taken * million / sum) // at most 2^32 times 2^20
		one := *r
		one.Name = fmt.Sprintf("%s#%s", r.Name, w.Cluster)
		one.Action = alone(r.Action, w, from, to)
		for _, route := range b.route(vh, &one) {
			if taken < sum {
				route.Match.RuntimeFraction = fraction(to)
			}
			routes = append(routes, route)
		}
		from = to
	}
	return routes
}

func alone(a *model.Action, w model.WeightedBackend, from, to uint32) *model.Action {
	action, f := *a, *a.Forward
	var own model.OwnFilters
	if w.Own != nil {
		own = *w.Own
	}
	if own.CORS != nil {
		action.CORS = own.CORS
	}
	if own.Auth != nil {
		action.Auth = own.Auth
	}
	if own.Redirect != nil {
		action.Forward, action.Redirect = nil, own.Redirect
		action.ResponseHeaders = both(w.ResponseHeaders, a.ResponseHeaders)
		return &action
	}
	if own.RewritePath != (model.PathChange{}) {
		f.RewritePath = own.RewritePath
	}
	f.Mirrors = nil
	for _, m := range slices.Concat(a.Forward.Mirrors, own.Mirrors) {
		m.Numerator, m.Denominator = from+uint32(uint64(to-from)*uint64(m.Numerator)/uint64(m.Denominator)), million
		f.Mirrors = append(f.Mirrors, m)
	}
	if f.Rule == nil {
		f.Rule = f.Backends
	}
	w.Own, w.Weight = nil, 1
	f.Backends = []model.WeightedBackend{w}
	action.Forward = &f
	return &action
}

func both(a, b model.HeaderChanges) model.HeaderChanges {
	return model.HeaderChanges{Set: slices.Concat(a.Set, b.Set), Add: slices.Concat(a.Add, b.Add),
		Remove: slices.Concat(a.Remove, b.Remove)}
}

func (b *builder) mirrors(list []model.Mirror) []*routev3.RouteAction_RequestMirrorPolicy {
	var out []*routev3.RouteAction_RequestMirrorPolicy
	for _, m := range list {
		p := &routev3.RouteAction_RequestMirrorPolicy{
			Cluster:                       b.cluster(m.Cluster),
			DisableShadowHostSuffixAppend: true,
			RequestHeadersMutations:       mirrorHeaders,
		}
		if m.Numerator < m.Denominator {
			p.RuntimeFraction = fraction(uint32(uint64(m.Numerator) * million / uint64(m.Denominator)))
		}
		out = append(out, p)
	}
	return out
}
