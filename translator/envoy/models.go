package envoy

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// modelsRoute sends requests for the list of models to our picker. It returns nil if the main route
// does so too and no pool spills: for a pool that spills, Envoy ignores the picker's answer.
// Services keep their share of these requests, because their models are unknown. An import with
// several exporting clusters gets one call: three calls would take 10 KiB more of Envoy's memory.
func (b *builder) modelsRoute(r *model.Route, main *routev3.Route) *routev3.Route {
	if b.hops {
		return nil
	}
	f := r.Action.Forward
	calls, pools, backends := modelsCalls, ruleBackends(f), slices.Clone(f.Backends)
	several := false
	for i := range backends {
		if w := &backends[i]; (len(w.Members) > 0 || behindHops(w)) && w.Weight > 0 {
			several, w.Picker = true, listCall(w)
		}
	}
	calls.pools = b.listedPools(r)
	if !slices.ContainsFunc(pools, func(w model.WeightedBackend) bool { return behindHops(&w) }) &&
		(!strings.Contains(calls.pools, ",") || !slices.ContainsFunc(pools, throughGateways)) {
		calls.pools = ""
		if !several && !slices.ContainsFunc(backends, func(w model.WeightedBackend) bool {
			return pooled(&w) && (w.Picker.Cluster.External() || w.Picker.Spills)
		}) {
			return nil
		}
	}
	one, action, forward := *r, *r.Action, *f
	forward.Backends = backends
	for i := range forward.Backends {
		if w := &forward.Backends[i]; calls.pools != "" && throughGateways(*w) {
			w.Picker = listCall(w)
		}
	}
	action.Forward, one.Action = &forward, &action
	route := &routev3.Route{Name: r.Name + modelsSuffix, Match: listMatch(r.Match)}
	changeHeaders(route, r.Action)
	route.RequestBodyBufferLimit = main.RequestBodyBufferLimit
	route.TypedPerFilterConfig = main.TypedPerFilterConfig
	route.Action = b.routeAction(&one, calls)
	return route
}

const modelsSuffix = "#models"

func listMatch(m model.Match) *routev3.RouteMatch {
	out := routeMatch(m)
	out.Headers = append(out.Headers, header(":method", byRegex("GET|HEAD")),
		header(":path", byRegex(`.*/v1/models(\?.*)?`)))
	return out
}

func listCall(w *model.WeightedBackend) *model.PickerCall {
	return &model.PickerCall{Cluster: model.OurPicker, Pool: w.Cluster.Pool()}
}

func behindHops(w *model.WeightedBackend) bool {
	imported := w.Cluster.Kind == model.ImportKind
	return w.Hops && (imported || w.Cluster.Kind == model.PoolKind) && w.Cluster.Variant == model.HopsVariant
}

// ListsModels reports whether a host answers requests for the list of models that match no route.
// It returns false if a route's permissions differ from the host's (hidden): clients without
// permission would learn the models' names.
func ListsModels(vh *model.VirtualHost) bool {
	some := false
	for i := range vh.Routes {
		r := &vh.Routes[i]
		if hidden(vh, r) {
			return false
		}
		some = some || byModel(r) && r.Action.Forward != nil && slices.ContainsFunc(r.Action.Forward.Backends, listable)
	}
	return some
}

func listable(w model.WeightedBackend) bool {
	return w.Weight > 0 && (pooled(&w) || behindHops(&w) || len(w.Members) > 0 || throughGateways(w))
}

func byModel(r *model.Route) bool {
	return slices.ContainsFunc(r.Match.Headers, func(h model.ValueMatch) bool { return h.Name == ModelHeader })
}

func (b *builder) hostModelsRoute(vh *model.VirtualHost) *routev3.Route {
	if b.hops || b.peers || !ListsModels(vh) {
		return nil
	}
	calls := modelsCalls
	var one model.WeightedBackend
	var pools []string
	for i := range vh.Routes {
		r := &vh.Routes[i]
		if !byModel(r) || r.Action.Forward == nil {
			continue
		}
		for _, list := range strings.Split(b.listedPools(r), ",") {
			if list != "" && !slices.Contains(pools, list) {
				pools = append(pools, list)
			}
		}
		if i := slices.IndexFunc(r.Action.Forward.Backends, listable); i >= 0 && one.Cluster.IsZero() {
			one = r.Action.Forward.Backends[i]
		}
	}
	calls.pools = strings.Join(pools, ",")
	if !pooled(&one) || one.Picker.Cluster.External() || one.Picker.Spills {
		one.Picker = listCall(&one)
	}
	one.Weight = 1
	r := &model.Route{Name: "models", Match: model.Match{PathKind: model.PathPrefix, Path: "/"}, Gates: vh.Gates,
		Action: &model.Action{Forward: &model.Forward{Backends: []model.WeightedBackend{one}}}}
	return &routev3.Route{Name: r.Name, Match: listMatch(r.Match), Action: b.routeAction(r, calls)}
}

func ruleBackends(f *model.Forward) []model.WeightedBackend {
	if f.Rule != nil {
		return eachMember(f.Rule)
	}
	return eachMember(f.Backends)
}

func eachMember(backends []model.WeightedBackend) []model.WeightedBackend {
	out := make([]model.WeightedBackend, 0, len(backends))
	for _, w := range backends {
		if w.Weight == 0 || len(w.Members) == 0 {
			out = append(out, w)
			continue
		}
		out = append(out, w.Members...)
	}
	return out
}

func rulePools(f *model.Forward) string {
	var pools []string
	for _, w := range ruleBackends(f) {
		if pooled(&w) {
			pools = addPool(pools, &w, url.Values{})
		}
	}
	return strings.Join(pools, ",")
}

func (b *builder) listedPools(r *model.Route) string {
	f := r.Action.Forward
	var pools []string
	for _, w := range ruleBackends(f) {
		switch {
		case pooled(&w), behindHops(&w) && w.Weight > 0:
			pools = addPool(pools, &w, url.Values{})
		case throughGateways(w):
			how := url.Values{}
			if host := cmp.Or(w.Peer, w.RewriteHost, f.RewriteHost); host != "" {
				how.Set("host", host)
			}
			path := f.RewritePath
			if w.Own != nil && w.Own.RewritePath != (model.PathChange{}) {
				path = w.Own.RewritePath
			}
			switch {
			case path.Full != nil:
				how.Set("path", *path.Full)
			case path.Prefix != nil:
				how.Set("prefix", elements(r.Match.Path))
				how.Set("replace", elements(*path.Prefix))
			}
			pools = addPool(pools, &w, how)
		}
	}
	return strings.Join(pools, ",")
}

var listed = strings.NewReplacer("%", "%25", ",", "%2C", "?", "%3F")

func addPool(pools []string, w *model.WeightedBackend, how url.Values) []string {
	id := w.Cluster.Pool()
	if w.Picker != nil {
		id = w.Picker.Pool
		if s := w.Picker.Subset; s != nil {
			how.Set("subset", s.Selector)
		}
	}
	name := listed.Replace(id.String())
	if len(how) > 0 {
		name += "?" + how.Encode()
	}
	if !slices.Contains(pools, name) {
		pools = append(pools, name)
	}
	return pools
}

func pooled(w *model.WeightedBackend) bool {
	return w.Picker != nil && w.Weight > 0 && !w.Picker.Pool.IsZero()
}

func throughGateways(w model.WeightedBackend) bool {
	return w.Weight > 0 && (w.Cluster.Kind == model.ParentKind || w.Cluster.Kind == model.PeerKind)
}
