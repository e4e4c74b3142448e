package envoy

import (
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
)

const (
	gateTimeout = 200 * time.Millisecond
	// Envoy reads the limit of one try from the retry policy's max_interval. With 10 ms, a server's
	// pause of 30 ms causes a 503. With 60 ms, no request fails while one of two servers is frozen.
	gateTryTimeout = 60 * time.Millisecond
	// gateWaitTimeout replaces both if Config.Waits is set. A new program translates a folder of
	// 5,000 routes in 2 s, on a busy machine in 6 s.
	gateWaitTimeout = 10 * time.Second
	// gateTryTimeout starts once the connection is open. Without a connect timeout, a host that
	// drops SYNs would use up gateTimeout. TLS handshakes take longer on a busy machine.
	gateConnectTimeout, gateTLSTimeout = 50 * time.Millisecond, 150 * time.Millisecond
)

// Names shared with our authorization service (picker/authz).
const (
	metaStage       = "x-penstock-stage"
	gatePolicies    = "policies" // value: model.Route.Gates, comma-separated
	gatePools       = "pools"    // model.Route.Reaches, comma-separated; absent while the route is unknown
	gateLists       = "lists"
	gateAny         = "any"              // set while the route is unknown: one policy suffices
	gateFinal       = "final"            // set if an early call may replace the late call
	gateWatch       = "watch"            // set if the answer must have grantMetadata
	modelHeader     = "x-penstock-model" // ModelHeader, if all servers read the same model
	keysHeader      = "x-penstock-keys"  // restricted keys of a request for the list of models
	callerHeader    = "x-penstock-caller"
	groupsHeader    = "x-penstock-groups"
	gateMetadata    = "envoy.filters.http.ext_authz"
	decidedMetadata = "decided"
	callerMetadata  = "caller"
	policyMetadata  = "policy" // value: the policy that denies the request
	keysMetadata    = "keys"
	vouchMetadata   = "vouch" // groupsHeader
	finalMetadata   = "final"
	grantMetadata   = "grant" // sent in calls that watch the request (metaWatch)
)

// stageHeaders are only for filters and pickers of the edge: the router removes them. gatedHeaders
// are also for pickers behind hops (hopsCaller).
var (
	stageHeaders = []string{chunkedHeader, modelHeader}
	gatedHeaders = []string{callerHeader, keysHeader, groupsHeader}
	// gatedMetadata has the metadata keys of the values of gatedHeaders.
	gatedMetadata = []string{callerMetadata, keysMetadata, vouchMetadata}
)

// gateHeaders are the headers that the authorization service receives, besides method and path.
var gateHeaders = []string{"authorization", "x-api-key", "api-key", "content-type", modelHeader,
	"access-control-request-method", "origin", "content-length", chunkedHeader, "upgrade"}

// gate calls our authorization service, which decides by headers alone. The filter fails closed:
// each route configuration disables it (ungated), and routes with AccessPolicies enable it again.
// HttpFilter.disabled cannot replace ungated: after a script's clearRouteCache, requests would pass
// a gated route. The early gate precedes all filters that wait for a body.
func (b *builder) gate(early bool) *authzv3.ExtAuthz {
	stage, prefix := "late", "gate"
	if early {
		stage, prefix = "early", "gate_early"
	}
	service := b.grpc(model.OurGate)
	service.Timeout = seconds(b.gateTimeout(gateTimeout))
	addMeta(service, metaStage, stage)
	service.RetryPolicy = b.callAgain()
	service.RetryPolicy.RetryBackOff.MaxInterval = seconds(b.gateTimeout(gateTryTimeout))
	out := &authzv3.ExtAuthz{
		StatPrefix:          prefix,
		TransportApiVersion: corev3.ApiVersion_V3,
		Services:            &authzv3.ExtAuthz_GrpcService{GrpcService: service},
		StatusOnError:       &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		ValidateMutations:   true,
		EncodeRawHeaders:    true,
		AllowedHeaders:      names(gateHeaders),
	}
	if !early {
		out.FilterEnabledMetadata = &matcherv3.MetadataMatcher{
			Filter: gateMetadata,
			Path:   []*matcherv3.MetadataMatcher_PathSegment{pathSegment(finalMetadata)},
			Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_BoolMatch{BoolMatch: true}},
			Invert: true,
		}
	}
	return out
}

func (b *builder) gateTimeout(usual time.Duration) time.Duration {
	if b.waits {
		return gateWaitTimeout
	}
	return usual
}

func pathSegment(key string) *matcherv3.MetadataMatcher_PathSegment {
	return &matcherv3.MetadataMatcher_PathSegment{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}
}

func (b *builder) ungated() map[string]*anypb.Any {
	off := b.any(&authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_Disabled{Disabled: true}})
	return map[string]*anypb.Any{filterGateEarly: off, filterGate: off}
}

type gateOf struct {
	policies, reaches []string
	lists             bool
	watched           bool
}

func (b *builder) asks(extensions map[string]string) *anypb.Any {
	return b.any(&authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_CheckSettings{
		CheckSettings: &authzv3.CheckSettings{ContextExtensions: extensions},
	}})
}

// gated enables the gate, and an RBAC filter that requires an answer in which each policy of g
// allowed the request. Without the RBAC filter, requests would pass after an empty answer, and in a
// listener without gates.
func (b *builder) gated(to *map[string]*anypb.Any, g gateOf) {
	if len(g.policies) == 0 {
		return
	}
	extensions := map[string]string{
		gatePolicies: strings.Join(g.policies, ","), gatePools: strings.Join(g.reaches, ","),
	}
	if g.lists {
		extensions[gateLists] = "true"
	}
	if g.watched {
		extensions[gateWatch] = "true"
		put(to, filterWatch, b.watches(g))
	}
	put(to, filterGate, b.asks(extensions))
	var decided []*rbacrulesv3.Principal
	for _, p := range g.policies {
		decided = append(decided, &rbacrulesv3.Principal{Identifier: &rbacrulesv3.Principal_SourcedMetadata{
			SourcedMetadata: &rbacrulesv3.SourcedMetadata{MetadataMatcher: &matcherv3.MetadataMatcher{
				Filter: gateMetadata,
				Path:   []*matcherv3.MetadataMatcher_PathSegment{pathSegment(decidedMetadata)},
				Value: &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{
					ListMatch: &matcherv3.ListMatcher{MatchPattern: &matcherv3.ListMatcher_OneOf{
						OneOf: &matcherv3.ValueMatcher{
							MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: exact(p)},
						},
					}},
				}},
			}},
		}})
	}
	all := &rbacrulesv3.Principal{
		Identifier: &rbacrulesv3.Principal_AndIds{AndIds: &rbacrulesv3.Principal_Set{Ids: decided}},
	}
	put(to, filterTokenUsage, b.fillUsage())
	put(to, filterRBAC, b.any(&rbacv3.RBACPerRoute{Rbac: &rbacv3.RBAC{Rules: &rbacrulesv3.RBAC{
		Action: rbacrulesv3.RBAC_ALLOW,
		Policies: map[string]*rbacrulesv3.Policy{decidedMetadata: {
			Permissions: []*rbacrulesv3.Permission{{Rule: &rbacrulesv3.Permission_Any{Any: true}}},
			Principals:  []*rbacrulesv3.Principal{all},
		}},
	}}}))
}

func (b *builder) gateRoute(vh *model.VirtualHost, route *routev3.Route, g gateOf) {
	if g.lists || !gatedWhole(vh) {
		b.gated(&route.TypedPerFilterConfig, g)
	}
}

func gatedWhole(vh *model.VirtualHost) bool {
	return gatedAlike(vh) && !slices.ContainsFunc(vh.Routes, func(r model.Route) bool {
		return !slices.Equal(r.Reaches, vh.Routes[0].Reaches)
	})
}

func gatedAlike(vh *model.VirtualHost) bool {
	return len(vh.Gates) > 0 && !slices.ContainsFunc(vh.Routes, func(r model.Route) bool {
		return !slices.Equal(r.Gates, vh.Gates)
	})
}

// gateScan authorizes requests before Envoy reads the body to find the route. It requires the
// policies that all routes of the host share, or else any one policy of a route. The route's own
// gate requires the rest.
func (b *builder) gateScan(vh *model.VirtualHost, scan *routev3.Route) {
	extensions := map[string]string{gatePolicies: strings.Join(vh.Gates, ",")}
	switch {
	case gatedAlike(vh):
		extensions[gateFinal] = "true"
		if vh.Routes[0].Watched {
			extensions[gateWatch] = "true"
		}
	case len(vh.Gates) > 0:
	default:
		var all []string
		for i := range vh.Routes {
			if len(vh.Routes[i].Gates) == 0 {
				return
			}
			all = append(all, vh.Routes[i].Gates...)
		}
		slices.Sort(all)
		extensions[gatePolicies], extensions[gateAny] = strings.Join(slices.Compact(all), ","), "true"
	}
	put(&scan.TypedPerFilterConfig, filterGateEarly, b.asks(extensions))
}

// gateWait authorizes requests before a route's script buffers the body.
func (b *builder) gateWait(r *model.Route, route *routev3.Route) {
	script := route.TypedPerFilterConfig[filterScripts]
	if len(r.Gates) == 0 || script == nil || !proto.Equal(script, b.script(waitCode)) {
		return
	}
	extensions := map[string]string{
		gatePolicies: strings.Join(r.Gates, ","), gatePools: strings.Join(r.Reaches, ","), gateFinal: "true",
	}
	if r.Watched {
		extensions[gateWatch] = "true"
	}
	put(&route.TypedPerFilterConfig, filterGateEarly, b.asks(extensions))
}

// lists reports whether our picker answers a route's requests for the list of models. Its answer
// has only the models that the caller may use. If the picker fails, a server answers with its list.
func lists(r *model.Route, route *routev3.Route) bool {
	f := r.Action.Forward
	elsewhere := func(p model.PathChange) bool {
		return p.Full != nil || p.Prefix != nil && strings.Contains(r.Match.Path, "/models")
	}
	if f == nil || r.Match.GRPC != nil || elsewhere(f.RewritePath) ||
		slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool {
			return w.Own != nil && elsewhere(w.Own.RewritePath)
		}) {
		return false
	}
	if strings.HasSuffix(route.Name, modelsSuffix) {
		return true
	}
	return !slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool {
		return w.Own != nil || w.Weight > 0 && (!pooled(&w) || w.Picker.Cluster.External() || w.Picker.Spills)
	})
}

func reachesAny(vh *model.VirtualHost) (all []string) {
	for i := range vh.Routes {
		all = append(all, vh.Routes[i].Reaches...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hidden reports whether some of the host's clients must not learn the route's models.
func hidden(vh *model.VirtualHost, r *model.Route) bool {
	return r.Action.Auth != nil || !slices.Equal(r.Gates, vh.Gates)
}
