package envoy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Endpoints encodes a cluster's assignment. Even an empty assignment ends the cluster's warming.
func Endpoints(a *model.Assignment) (*resource.Resource, error) {
	load := &endpointv3.ClusterLoadAssignment{ClusterName: a.Cluster.String()}
	var refs []resource.Ref
	var groups [][]byte
	for _, e := range a.Endpoints {
		i := slices.IndexFunc(load.Endpoints, func(g *endpointv3.LocalityLbEndpoints) bool {
			return g.Priority == e.Priority
		})
		if i < 0 {
			i = len(groups)
			load.Endpoints, groups = append(load.Endpoints, &endpointv3.LocalityLbEndpoints{Priority: e.Priority}),
				append(groups, make([]byte, 0, len(a.Endpoints)*podSize))
		}
		var err error
		if groups[i], err = appendEndpoint(groups[i], e); err != nil {
			return nil, fmt.Errorf("endpoints %s: %w", a.Cluster, err)
		}
		if !e.Hop.IsZero() {
			refs = append(refs, resource.Ref{Type: resource.Listener, Name: model.HopListener},
				resource.Ref{Type: resource.VirtualHost, Name: e.Hop.String()})
		}
	}
	for i, g := range load.Endpoints {
		g.ProtoReflect().SetUnknown(groups[i])
	}
	return checked(resource.Endpoints, load.ClusterName, load, refs, a.Owners)
}

const podSize = 64

// Most pods are encoded without protobuf messages: tens of thousands of messages would load the
// garbage collector.
func appendEndpoint(b []byte, e model.Endpoint) ([]byte, error) {
	const lbEndpoints = 2
	var room [128]byte
	body := room[:0]
	switch {
	case !e.Hop.IsZero(), e.Socket != "", (e.Cleartext || e.Unhealthy) && e.Address.IsValid():
		msg := lbEndpoint(e)
		if err := checkMessage(msg); err != nil {
			return nil, err
		}
		var err error
		if body, err = resource.Marshal(msg); err != nil {
			return nil, err
		}
	case !e.Address.IsValid():
		return nil, errors.New("an endpoint without an address")
	default:
		body = appendPod(body, e)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, lbEndpoints, protowire.BytesType), body), nil
}

func appendPod(b []byte, e model.Endpoint) []byte {
	const (
		endpoint, metadata, weight = 1, 3, 4 // field numbers of LbEndpoint
		address                    = 1       // of Endpoint
		socket                     = 1       // of Address
		ip, port                   = 2, 3    // of SocketAddress
		value                      = 1       // of UInt32Value
	)
	message := func(b []byte, number protowire.Number, body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), body)
	}
	var rooms [5][64]byte
	s := message(rooms[0][:0], ip, e.Address.Addr().AppendTo(rooms[1][:0]))
	s = protowire.AppendVarint(protowire.AppendTag(s, port, protowire.VarintType), uint64(e.Address.Port()))
	b = message(b, endpoint, message(rooms[2][:0], address, message(rooms[3][:0], socket, s)))
	b = message(b, metadata, podMetadata)
	if e.Weight != 0 {
		w := protowire.AppendVarint(protowire.AppendTag(rooms[4][:0], value, protowire.VarintType), uint64(e.Weight))
		b = message(b, weight, w)
	}
	return b
}

var podMetadata = func() []byte {
	body, _ := resource.Marshal(lbEndpoint(model.Endpoint{}).Metadata) // cannot fail
	return body
}()

// AddEndpoints adds pods that are missing from a pool's encoded endpoints. If a BackendTLSPolicy
// without a valid CA certificate has closed the cluster, AddEndpoints adds nothing.
func AddEndpoints(cluster, endpoints *resource.Resource, pods []netip.AddrPort) (*resource.Resource, error) {
	c, load := &clusterv3.Cluster{}, &endpointv3.ClusterLoadAssignment{}
	if err := errors.Join(proto.Unmarshal(cluster.Body(), c), proto.Unmarshal(endpoints.Body(), load)); err != nil {
		return nil, err
	}
	if c.TransportSocket == nil && slices.ContainsFunc(cluster.Owners(),
		func(o report.Ref) bool { return o.Kind == "BackendTLSPolicy" }) {
		return endpoints, nil
	}
	if len(load.Endpoints) == 0 {
		load.Endpoints = []*endpointv3.LocalityLbEndpoints{{}}
	}
	first := load.Endpoints[0]
	for _, pod := range pods {
		e := lbEndpoint(model.Endpoint{Address: pod})
		if !slices.ContainsFunc(first.LbEndpoints,
			func(has *endpointv3.LbEndpoint) bool { return proto.Equal(has, e) }) {
			first.LbEndpoints = append(first.LbEndpoints, e)
		}
	}
	return checked(resource.Endpoints, endpoints.Name, load, slices.Clone(endpoints.Refs),
		slices.Clone(endpoints.Owners()))
}

const maxFormer = 16

// If all endpoints of a cluster are new, AddFormer adds the previous endpoints at priority 1. Envoy
// uses these until a new endpoint passes its first health check. The result `replaced` reports
// whether the previous endpoints of priority 0 existed and are all gone.
func AddFormer(endpoints, before *resource.Resource) (with *resource.Resource, replaced bool, err error) {
	load, previous := &endpointv3.ClusterLoadAssignment{}, &endpointv3.ClusterLoadAssignment{}
	if err := errors.Join(proto.Unmarshal(endpoints.Body(), load),
		proto.Unmarshal(before.Body(), previous)); err != nil {
		return nil, false, err
	}
	has := map[string]bool{}
	for _, group := range load.Endpoints {
		for _, e := range group.LbEndpoints {
			has[hostPort(e)] = true
		}
	}
	if len(has) == 0 {
		return endpoints, false, nil
	}
	former := &endpointv3.LocalityLbEndpoints{Priority: 1}
	for _, group := range previous.Endpoints {
		stays := slices.ContainsFunc(group.LbEndpoints, func(e *endpointv3.LbEndpoint) bool { return has[hostPort(e)] })
		if group.Priority == 0 {
			if stays {
				continue
			}
			replaced = len(group.LbEndpoints) > 0
		}
		for _, e := range group.LbEndpoints {
			if !has[hostPort(e)] && len(former.LbEndpoints) < maxFormer {
				former.LbEndpoints = append(former.LbEndpoints, e)
			}
		}
	}
	if len(former.LbEndpoints) == 0 {
		return endpoints, replaced, nil
	}
	load.Endpoints = append(load.Endpoints, former)
	with, err = checked(resource.Endpoints, endpoints.Name, load, slices.Clone(endpoints.Refs),
		slices.Clone(endpoints.Owners()))
	return with, replaced, err
}

const maxDraining = 1024

// AddDraining adds a datagram cluster's previous endpoints as draining, so that pending answers
// still arrive. If the cluster has no new endpoints, AddDraining adds nothing. The result `drains`
// reports whether an endpoint begins to drain now.
func AddDraining(endpoints, before *resource.Resource) (with *resource.Resource, drains bool, err error) {
	load, former := &endpointv3.ClusterLoadAssignment{}, &endpointv3.ClusterLoadAssignment{}
	if err := errors.Join(proto.Unmarshal(endpoints.Body(), load), proto.Unmarshal(before.Body(), former)); err != nil {
		return nil, false, err
	}
	if len(load.Endpoints) == 0 {
		return endpoints, false, nil
	}
	has := map[string]bool{hostPort(lbEndpoint(model.Endpoint{Address: model.DropAddress})): true}
	for _, e := range load.Endpoints[0].LbEndpoints {
		has[hostPort(e)] = true
	}
	var draining []*endpointv3.LbEndpoint
	for _, group := range former.Endpoints {
		for _, e := range group.LbEndpoints {
			if !has[hostPort(e)] && len(draining) < maxDraining {
				drains = drains || e.HealthStatus != corev3.HealthStatus_DRAINING
				e.HealthStatus, e.LoadBalancingWeight = corev3.HealthStatus_DRAINING, nil
				draining = append(draining, e)
			}
		}
	}
	if len(draining) == 0 {
		return endpoints, false, nil
	}
	load.Endpoints[0].LbEndpoints = append(load.Endpoints[0].LbEndpoints, draining...)
	with, err = checked(resource.Endpoints, endpoints.Name, load, slices.Clone(endpoints.Refs),
		slices.Clone(endpoints.Owners()))
	return with, drains, err
}

func hostPort(e *endpointv3.LbEndpoint) string {
	at := e.GetEndpoint().GetAddress().GetSocketAddress()
	return net.JoinHostPort(at.GetAddress(), strconv.Itoa(int(at.GetPortValue())))
}

// Pods returns the pods in an assignment.
func Pods(endpoints *resource.Resource) (out []netip.AddrPort, err error) {
	load := &endpointv3.ClusterLoadAssignment{}
	if err := proto.Unmarshal(endpoints.Body(), load); err != nil {
		return nil, err
	}
	for _, locality := range load.Endpoints {
		for _, e := range locality.LbEndpoints {
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			if addr, err := netip.ParseAddr(at.GetAddress()); err == nil {
				out = append(out, netip.AddrPortFrom(addr, uint16(at.GetPortValue())))
			}
		}
	}
	return out, nil
}

func lbEndpoint(e model.Endpoint) *endpointv3.LbEndpoint {
	role := rolePod
	addr := address(e.Address.Addr().String(), uint32(e.Address.Port()))
	if e.Socket != "" {
		addr = &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: e.Socket}}}
	}
	metadata := map[string]*structpb.Struct{}
	if e.Cleartext {
		metadata["envoy.transport_socket_match"] = field(cleartextKey, structpb.NewBoolValue(true))
	}
	if !e.Hop.IsZero() {
		role = roleSpill
		if e.Later {
			role = roleLater
		}
		hop := &corev3.EnvoyInternalAddress{
			AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{
				ServerListenerName: model.HopListener,
			},
			EndpointId: e.Hop.String(),
		}
		addr = &corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: hop}}
		metadata["envoy.transport_socket_match"] = field(hopKey, structpb.NewBoolValue(true))
	}
	metadata["envoy.lb"] = field(roleKey, structpb.NewStringValue(role))
	health := corev3.HealthStatus_UNKNOWN
	if e.Unhealthy {
		health = corev3.HealthStatus_UNHEALTHY
	}
	return &endpointv3.LbEndpoint{
		HealthStatus:        health,
		HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: addr}},
		Metadata:            &corev3.Metadata{FilterMetadata: metadata},
		LoadBalancingWeight: number(e.Weight),
	}
}

func field(key string, value *structpb.Value) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{key: value}}
}
