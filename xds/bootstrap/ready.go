package bootstrap

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// ReadyPath is the path of readiness probes.
const ReadyPath = "/ready"

// readyListener answers 503 while the proxy drains. Unlike the admin interface, it serves only
// ReadyPath.
func (b *builder) readyListener(c Config) *listenerv3.Listener {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: "ready",
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: "ready",
			VirtualHosts: []*routev3.VirtualHost{{Name: "ready", Domains: []string{"*"}, Routes: []*routev3.Route{{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 404}},
			}}}},
		}},
		HttpFilters: []*hcmv3.HttpFilter{
			b.filter("envoy.filters.http.health_check", &healthv3.HealthCheck{
				PassThroughMode: wrapperspb.Bool(false),
				Headers: []*routev3.HeaderMatcher{{Name: ":path",
					HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
						StringMatch: &matcherv3.StringMatcher{
							MatchPattern: &matcherv3.StringMatcher_Exact{Exact: ReadyPath},
						},
					}}},
			}),
			b.filter("envoy.filters.http.router", &routerv3.Router{}),
		},
	}
	return &listenerv3.Listener{
		Name: "ready", Address: mustAddress(c.Ready).proto(), StatPrefix: "ready",
		// A proxy at its connection limit is still ready.
		IgnoreGlobalConnLimit: true, BypassOverloadManager: true,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: b.any(manager)},
		}}}},
		TrafficDirection: corev3.TrafficDirection_INBOUND,
	}
}
