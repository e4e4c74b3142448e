package xdstest

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/resource"
)

// Resource.Refs are under test, so read finds references itself.
func read(t resource.Type, body *anypb.Any) (msg any, names []resource.Ref) {
	add := func(t resource.Type, name string) {
		if name != "" {
			names = append(names, resource.Ref{Type: t, Name: name})
		}
	}
	switch t {
	case resource.Secret:
		msg = decode(body, &tlsv3.Secret{})
	case resource.Cluster:
		c := decode(body, &clusterv3.Cluster{})
		if eds := c.GetEdsClusterConfig(); eds != nil {
			add(resource.Endpoints, orElse(eds.GetServiceName(), c.GetName()))
		}
		readTLS(c.GetTransportSocket().GetTypedConfig(), add)
		msg = c
	case resource.Endpoints:
		a := decode(body, &endpointv3.ClusterLoadAssignment{})
		for _, group := range a.GetEndpoints() {
			for _, e := range group.GetLbEndpoints() {
				at := e.GetEndpoint().GetAddress().GetEnvoyInternalAddress()
				add(resource.Listener, at.GetServerListenerName())
				add(resource.VirtualHost, at.GetEndpointId())
			}
		}
		msg = a
	case resource.Listener:
		l := decode(body, &listenerv3.Listener{})
		for _, chain := range l.GetFilterChains() {
			readTLS(chain.GetTransportSocket().GetTypedConfig(), add)
			for _, filter := range chain.GetFilters() {
				hcm := &hcmv3.HttpConnectionManager{}
				if filter.GetTypedConfig().MessageIs(hcm) {
					add(resource.RouteConfiguration, decode(filter.GetTypedConfig(), hcm).GetRds().GetRouteConfigName())
				}
			}
		}
		msg = l
	case resource.RouteConfiguration:
		rc := decode(body, &routev3.RouteConfiguration{})
		for _, vh := range rc.GetVirtualHosts() {
			if rc.GetVhostHeader() != "" {
				add(resource.VirtualHost, vh.GetName())
			}
			for _, r := range vh.GetRoutes() {
				add(resource.Cluster, r.GetRoute().GetCluster())
				for _, w := range r.GetRoute().GetWeightedClusters().GetClusters() {
					add(resource.Cluster, w.GetName())
				}
			}
		}
		msg = rc
	}
	return msg, names
}

func readTLS(config *anypb.Any, add func(resource.Type, string)) {
	var common *tlsv3.CommonTlsContext
	down, up := &tlsv3.DownstreamTlsContext{}, &tlsv3.UpstreamTlsContext{}
	switch {
	case config.MessageIs(down):
		common = decode(config, down).GetCommonTlsContext()
	case config.MessageIs(up):
		common = decode(config, up).GetCommonTlsContext()
	}
	for _, s := range common.GetTlsCertificateSdsSecretConfigs() {
		add(resource.Secret, s.GetName())
	}
	add(resource.Secret, common.GetValidationContextSdsSecretConfig().GetName())
}

func ports(msg any) (out []uint32) {
	switch m := msg.(type) {
	case *listenerv3.Listener:
		out = append(out, m.GetAddress().GetSocketAddress().GetPortValue())
	case *endpointv3.ClusterLoadAssignment:
		for _, group := range m.GetEndpoints() {
			for _, e := range group.GetLbEndpoints() {
				if p := e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue(); p != 0 {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
