package xdstest

import (
	"maps"
	"slices"
	"testing"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"

	"github.com/penstock-project/penstock/xds/resource"
)

const hopHeader = "hop"

// Hops returns the internal listener and routes that map each hop to its cluster.
func Hops(t testing.TB, hops map[string]string) (listener, routes *resource.Resource) {
	t.Helper()
	l := httpListener(t, HopListener, HopListener, func(m *hcmv3.HttpConnectionManager) {
		m.EarlyHeaderMutationExtensions = []*corev3.TypedExtensionConfig{{Name: "hop",
			TypedConfig: pack(t, &earlyv3.HeaderMutation{Mutations: []*mutationv3.HeaderMutation{{
				Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
					Header:       &corev3.HeaderValue{Key: hopHeader, Value: "%DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID%"},
					AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
				}},
			}}})}}
	})
	l.ListenerSpecifier = &listenerv3.Listener_InternalListener{
		InternalListener: &listenerv3.Listener_InternalListenerConfig{},
	}
	rc := &routev3.RouteConfiguration{Name: HopListener, VhostHeader: hopHeader}
	var refs []resource.Ref
	for _, hop := range slices.Sorted(maps.Keys(hops)) {
		rc.VirtualHosts = append(rc.VirtualHosts, &routev3.VirtualHost{
			Name: hop, Domains: []string{hop}, Routes: []*routev3.Route{toCluster(hops[hop])},
		})
		refs = append(refs, resource.Ref{Type: resource.Cluster, Name: hops[hop]},
			resource.Ref{Type: resource.VirtualHost, Name: hop})
	}
	return Resource(t, resource.Listener, HopListener, l,
			resource.Ref{Type: resource.RouteConfiguration, Name: HopListener}),
		Resource(t, resource.RouteConfiguration, HopListener, rc, refs...)
}
