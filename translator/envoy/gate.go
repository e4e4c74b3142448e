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
	// gateTimeout limits a gate's whole call; without an answer the request is denied with 503.
	gateTimeout = 200 * time.Millisecond
	// gateTryTimeout limits one try: Envoy reads a retry policy's max_interval as such. At 10 ms a
	// pause of 30 ms is a 503. At 60 ms no request fails with one of two servers frozen.
	gateTryTimeout = 60 * time.Millisecond
	// A try's time starts when it is connected, so a host that drops SYNs would take all of
	// gateTimeout. A TLS handshake on a busy machine takes longer.
	gateConnectTimeout, gateTLSTimeout = 50 * time.Millisecond, 150 * time.Millisecond
)

// Names shared with our authorization service (picker/authz).
const (
	metaStage       = "x-penstock-stage" // early or late
	gatePolicies    = "policies"         // context extension: model.Route.Gates, comma-separated
	gateMetadata    = "envoy.filters.http.ext_authz"
	decidedMetadata = "decided" // policies that let the request in
	callerMetadata  = "caller"
	finalMetadata   = "final" // the early answer counts
)

// gateHeaders are all that the service reads of a request, besides method and path.
var gateHeaders = []string{"authorization", "x-api-key", "api-key", "content-type", ModelHeader,
	"access-control-request-method"}

// gate asks our authorization service on routes that switch it on (gated). Every route
// configuration switches it off (ungated), so that a forgotten switch denies. HttpFilter.disabled
// would do so too, but not after a script's clearRouteCache: a gated route would pass.
//
// The service answers from headers alone, and fails closed. The early gate precedes whatever waits
// for a body; its route may still change.
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
		EncodeRawHeaders:    true, // several of one name
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

// ungated switches the gates off for a route configuration.
func (b *builder) ungated() map[string]*anypb.Any {
	off := b.any(&authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_Disabled{Disabled: true}})
	return map[string]*anypb.Any{filterGateEarly: off, filterGate: off}
}

// gated switches the gate on for a host or route with policies, and locks it: an empty answer, or a
// list of filters without the gate, would let requests pass. The lock requires an answer in which
// each of these policies let the request in.
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
	put(to, filterTokenUsage, b.fillAll(b.readsUsage()))
	put(to, filterRBAC, b.any(&rbacv3.RBACPerRoute{Rbac: &rbacv3.RBAC{Rules: &rbacrulesv3.RBAC{
		Action: rbacrulesv3.RBAC_ALLOW,
		Policies: map[string]*rbacrulesv3.Policy{decidedMetadata: {
			Permissions: []*rbacrulesv3.Permission{{Rule: &rbacrulesv3.Permission_Any{Any: true}}},
			Principals:  []*rbacrulesv3.Principal{all},
		}},
	}}}))
}

// gateRoute gates one of a host's routes, unless the whole host is gated.
func (b *builder) gateRoute(vh *model.VirtualHost, route *routev3.Route, policies []string) {
	if !gatedWhole(vh) {
		b.gated(&route.TypedPerFilterConfig, policies)
	}
}

// gatedWhole reports whether all routes of a host have the same policies: they are then the host's.
func gatedWhole(vh *model.VirtualHost) bool {
	return len(vh.Gates) > 0 && !slices.ContainsFunc(vh.Routes, func(r model.Route) bool {
		return !slices.Equal(r.Gates, vh.Gates)
	})
}

// hidden reports whether some clients that pass the host's own gates do not pass the route's: they
// must not learn the names of its models.
func hidden(vh *model.VirtualHost, r *model.Route) bool {
	return r.Action.Auth != nil || !slices.Equal(r.Gates, vh.Gates)
}
