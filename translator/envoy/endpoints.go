package envoy

import (
	"errors"
	"net/netip"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Endpoints are the members of one cluster; an empty assignment is one too, and ends the cluster's warming.
func Endpoints(a *model.Assignment) (*resource.Resource, error) {
	load := &endpointv3.ClusterLoadAssignment{ClusterName: a.Cluster}
	var refs []resource.Ref
	groups := map[uint32]*endpointv3.LocalityLbEndpoints{} // by priority, which is how Envoy groups them
	for _, e := range a.Endpoints {
		g := groups[e.Priority]
		if g == nil {
			g = &endpointv3.LocalityLbEndpoints{Priority: e.Priority}
			groups[e.Priority] = g
			load.Endpoints = append(load.Endpoints, g)
		}
		g.LbEndpoints = append(g.LbEndpoints, lbEndpoint(e))
		if e.Hop != "" {
			refs = append(refs, resource.Ref{Type: resource.Listener, Name: e.Hop})
		}
	}
	return checked(resource.Endpoints, a.Cluster, load, refs, a.Owners)
}

// AddEndpoints adds pods to the endpoints of a pool's cluster, where they are not among them: to a cluster of which only what
// was sent to Envoy is left. One that a BackendTLSPolicy has closed, because there is nobody to trust, stays as it is.
func AddEndpoints(cluster, endpoints *resource.Resource, pods []netip.AddrPort) (*resource.Resource, error) {
	c, load := &clusterv3.Cluster{}, &endpointv3.ClusterLoadAssignment{}
	if err := errors.Join(proto.Unmarshal(cluster.Body, c), proto.Unmarshal(endpoints.Body, load)); err != nil {
		return nil, err
	}
	if c.TransportSocket == nil && slices.ContainsFunc(cluster.Owners, func(o report.Ref) bool { return o.Kind == "BackendTLSPolicy" }) {
		return endpoints, nil
	}
	if len(load.Endpoints) == 0 {
		load.Endpoints = []*endpointv3.LocalityLbEndpoints{{}}
	}
	first := load.Endpoints[0]
	for _, pod := range pods {
		e := lbEndpoint(model.Endpoint{Address: pod})
		if !slices.ContainsFunc(first.LbEndpoints, func(has *endpointv3.LbEndpoint) bool { return proto.Equal(has, e) }) {
			first.LbEndpoints = append(first.LbEndpoints, e)
		}
	}
	return checked(resource.Endpoints, endpoints.Name, load, slices.Clone(endpoints.Refs), slices.Clone(endpoints.Owners))
}

// podMetadata is what all endpoints that are no hops have. One for all of them: of 50,000, it was most of the garbage.
var podMetadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": field(roleKey, structpb.NewStringValue(rolePod))}}

func lbEndpoint(e model.Endpoint) *endpointv3.LbEndpoint {
	addr, metadata := address(e.Address.Addr().String(), uint32(e.Address.Port())), podMetadata
	if e.Hop != "" {
		role := roleSpill
		if e.Later {
			role = roleLater
		}
		metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			"envoy.lb":                     field(roleKey, structpb.NewStringValue(role)),
			"envoy.transport_socket_match": field(hopKey, structpb.NewBoolValue(true)),
		}}
		addr = &corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: &corev3.EnvoyInternalAddress{
			AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{ServerListenerName: e.Hop},
		}}}
	}
	return &endpointv3.LbEndpoint{
		HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: addr}},
		Metadata:            metadata,
		LoadBalancingWeight: number(e.Weight),
	}
}

func field(key string, value *structpb.Value) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{key: value}}
}
