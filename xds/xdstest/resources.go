package xdstest

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/resource"
)

// Resource encodes any message. Its owner is the HTTPRoute default/NAME.
func Resource(t testing.TB, kind resource.Type, name string, msg proto.Message,
	refs ...resource.Ref) *resource.Resource {
	t.Helper()
	r, err := resource.New(kind, name, msg, refs, []report.Ref{{Kind: "HTTPRoute", Namespace: "default", Name: name}})
	if err != nil {
		t.Fatalf("xdstest: %v", err)
	}
	return r
}

// Cluster returns an EDS cluster. Another generation changes only its bytes.
func Cluster(t testing.TB, name string, generation int) *resource.Resource {
	return SharedCluster(t, name, name, generation)
}

// SharedCluster is Cluster with a service_name that other clusters may share.
func SharedCluster(t testing.TB, name, service string, generation int) *resource.Resource {
	t.Helper()
	return Resource(t, resource.Cluster, name, &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(time.Second + time.Duration(generation)*time.Millisecond),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
			ServiceName: service,
			EdsConfig:   ADS(),
		},
	}, resource.Ref{Type: resource.Endpoints, Name: service})
}

// ADS returns the config source of all resources.
func ADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

// Endpoints returns an assignment of ports of 127.0.0.1.
func Endpoints(t testing.TB, service string, ports ...uint32) *resource.Resource {
	t.Helper()
	return EndpointsWithHops(t, service, nil, ports...)
}

// HopListener is an internal listener and its routes. A hop is a virtual host of these routes.
const HopListener = "hops"

// EndpointsWithHops returns Endpoints that also name hops.
func EndpointsWithHops(t testing.TB, service string, hops []string, ports ...uint32) *resource.Resource {
	t.Helper()
	group := &endpointv3.LocalityLbEndpoints{}
	add := func(a *corev3.Address) {
		group.LbEndpoints = append(group.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: a}},
		})
	}
	for _, p := range ports {
		add(socketAddress(p))
	}
	var refs []resource.Ref
	for _, hop := range hops {
		add(
			&corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: &corev3.EnvoyInternalAddress{
				AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{ServerListenerName: HopListener},
				EndpointId:           hop,
			}}})
		refs = append(refs, resource.Ref{Type: resource.Listener, Name: HopListener},
			resource.Ref{Type: resource.VirtualHost, Name: hop})
	}
	return Resource(t, resource.Endpoints, service, &endpointv3.ClusterLoadAssignment{
		ClusterName: service, Endpoints: []*endpointv3.LocalityLbEndpoints{group},
	}, refs...)
}

func socketAddress(port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// Listener returns an HTTP listener on a port of 127.0.0.1.
func Listener(t testing.TB, name string, port uint32, routes string) *resource.Resource {
	t.Helper()
	l := httpListener(t, name, routes, func(*hcmv3.HttpConnectionManager) {})
	l.Address = socketAddress(port)
	return Resource(t, resource.Listener, name, l, resource.Ref{Type: resource.RouteConfiguration, Name: routes})
}

func httpListener(t testing.TB, name, routes string, change func(*hcmv3.HttpConnectionManager)) *listenerv3.Listener {
	t.Helper()
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: routes, ConfigSource: ADS(),
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, &routerv3.Router{})},
		}},
	}
	change(manager)
	return &listenerv3.Listener{Name: name, FilterChains: []*listenerv3.FilterChain{{
		Name: routes,
		Filters: []*listenerv3.Filter{{
			Name:       "hcm",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, manager)},
		}},
	}}}
}

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		t.Fatalf("xdstest: %v", err)
	}
	return out
}

// Routes sends all requests to one cluster.
func Routes(t testing.TB, name, cluster string) *resource.Resource {
	t.Helper()
	return RoutesOf(t, name, toCluster(cluster), cluster)
}

func toCluster(cluster string) *routev3.Route {
	return &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
			RetryPolicy:      &routev3.RetryPolicy{RetryOn: "connect-failure"},
		}},
	}
}

// RoutesOf returns a route configuration of one route that names clusters.
func RoutesOf(t testing.TB, name string, route *routev3.Route, clusters ...string) *resource.Resource {
	t.Helper()
	var refs []resource.Ref
	for _, c := range clusters {
		refs = append(refs, resource.Ref{Type: resource.Cluster, Name: c})
	}
	return Resource(t, resource.RouteConfiguration, name, &routev3.RouteConfiguration{
		Name:         name,
		VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{route}}},
	}, refs...)
}
