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
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
)

const (
	// gateTimeout limits a gate's whole call; without an answer the request gets 503.
	gateTimeout = 200 * time.Millisecond
	// gateTryTimeout limits one try: Envoy takes the retry policy's max_interval for it. With 10
	// ms, a server's pause of 30 ms causes a 503. With 60 ms, no request fails while one of two
	// servers is frozen.
	gateTryTimeout = 60 * time.Millisecond
	// A try's time starts once its connection is open, so a host that drops SYNs would take all of
	// gateTimeout. On a busy machine TLS takes longer.
	gateConnectTimeout, gateTLSTimeout = 50 * time.Millisecond, 150 * time.Millisecond
)

// Names shared with our authorization service (picker/authz).
const (
	metaStage       = "x-penstock-stage" // early or late
	gatePolicies    = "policies"         // context extension: model.Route.Gates, comma-separated
	gateMetadata    = "envoy.filters.http.ext_authz"
	decidedMetadata = "decided" // the policies that let the request in
	callerMetadata  = "caller"
	finalMetadata   = "final" // true if the early answer is final
)

// gateHeaders are the headers that the service reads, besides method and path.
var gateHeaders = []string{"authorization", "x-api-key", "api-key", "content-type", ModelHeader,
	"access-control-request-method"}

// gate returns a filter that asks our authorization service. Every route configuration switches it
// off (ungated), and gated routes switch it on: if a switch is forgotten, the gate denies.
// HttpFilter.disabled cannot replace ungated: after a script's clearRouteCache, requests would pass
// a gated route.
//
// The service answers from headers alone, and fails closed. The early gate precedes all filters
// that wait for a body; the route may change after it.
func (b *builder) gate(early bool) *authzv3.ExtAuthz {
	stage, prefix := "late", "gate"
	if early {
		stage, prefix = "early", "gate_early"
	}
	service := b.grpc(model.OurGate)
	service.Timeout = seconds(gateTimeout)
	addMeta(service, metaStage, stage)
	service.RetryPolicy = b.callAgain()
	service.RetryPolicy.RetryBackOff.MaxInterval = seconds(gateTryTimeout)
	out := &authzv3.ExtAuthz{
		StatPrefix:          prefix,
		TransportApiVersion: corev3.ApiVersion_V3,
		Services:            &authzv3.ExtAuthz_GrpcService{GrpcService: service},
		StatusOnError:       &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		ValidateMutations:   true,
		EncodeRawHeaders:    true, // if several headers have one name
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

func pathSegment(key string) *matcherv3.MetadataMatcher_PathSegment {
	return &matcherv3.MetadataMatcher_PathSegment{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}
}

func (b *builder) ungated() map[string]*anypb.Any {
	off := b.any(&authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_Disabled{Disabled: true}})
	return map[string]*anypb.Any{filterGateEarly: off, filterGate: off}
}

// gated switches the gate on for a host or route with policies, and adds a lock (the filter rbac),
// which requires an answer that lists each of these policies. Without it, an empty answer, or a
// list of filters without the gate, would let requests pass.
func (b *builder) gated(to *map[string]*anypb.Any, policies []string) {
	if len(policies) == 0 {
		return
	}
	put(to, filterGate, b.any(&authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_CheckSettings{
		CheckSettings: &authzv3.CheckSettings{
			ContextExtensions: map[string]string{gatePolicies: strings.Join(policies, ",")},
		},
	}}))
	var decided []*rbacrulesv3.Principal
	for _, p := range policies {
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
	put(to, filterRBAC, b.any(&rbacv3.RBACPerRoute{Rbac: &rbacv3.RBAC{Rules: &rbacrulesv3.RBAC{
		Action: rbacrulesv3.RBAC_ALLOW,
		Policies: map[string]*rbacrulesv3.Policy{decidedMetadata: {
			Permissions: []*rbacrulesv3.Permission{{Rule: &rbacrulesv3.Permission_Any{Any: true}}},
			Principals:  []*rbacrulesv3.Principal{all},
		}},
	}}}))
}

func (b *builder) gateRoute(vh *model.VirtualHost, route *routev3.Route, policies []string) {
	if !gatedWhole(vh) {
		b.gated(&route.TypedPerFilterConfig, policies)
	}
}

// gatedWhole reports whether a host is gated instead of its routes: all have the host's policies.
func gatedWhole(vh *model.VirtualHost) bool {
	return len(vh.Gates) > 0 && !slices.ContainsFunc(vh.Routes, func(r model.Route) bool {
		return !slices.Equal(r.Gates, vh.Gates)
	})
}

// hidden reports whether clients that pass the host's gates may be denied by the route. They must
// not learn the names of its models.
func hidden(vh *model.VirtualHost, r *model.Route) bool {
	return r.Action.Auth != nil || !slices.Equal(r.Gates, vh.Gates)
}
