package xdstest

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/resource"
)

type response struct {
	t         resource.Type
	nonce     string
	version   string
	resources []received
	removed   []string
	full      bool
}

type received struct {
	name, version string
	body          *anypb.Any
}

type request struct {
	node                   *corev3.Node
	t                      resource.Type
	subscribe, unsubscribe []string
	all                    []string
	initial                map[string]string
	version                string
	nonce, nack            string
}

type adsWire interface {
	receive() (response, error)
	send(request) error
}

func (f *Fake) open(ctx context.Context) (adsWire, error) {
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(f.conn)
	if f.config.StateOfTheWorld {
		s, err := client.StreamAggregatedResources(ctx, grpc.WaitForReady(true))
		return stateClient{s}, err
	}
	s, err := client.DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	return deltaClient{s}, err
}

type deltaClient struct {
	stream grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
}

func (c deltaClient) receive() (response, error) {
	m, err := c.stream.Recv()
	if err != nil {
		return response{}, err
	}
	t, _ := resource.TypeOf(m.GetTypeUrl())
	r := response{t: t, nonce: m.GetNonce(), removed: m.GetRemovedResources()}
	for _, res := range m.GetResources() {
		r.resources = append(r.resources, received{
			name: res.GetName(), version: res.GetVersion(), body: res.GetResource(),
		})
	}
	return r, nil
}

func (c deltaClient) send(q request) error {
	return c.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: q.node, TypeUrl: q.t.URL(), ResourceNamesSubscribe: q.subscribe, ResourceNamesUnsubscribe: q.unsubscribe,
		InitialResourceVersions: q.initial, ResponseNonce: q.nonce, ErrorDetail: detail(q.nack),
	})
}

type stateClient struct {
	stream grpc.BidiStreamingClient[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]
}

func (c stateClient) receive() (response, error) {
	m, err := c.stream.Recv()
	if err != nil {
		return response{}, err
	}
	t, _ := resource.TypeOf(m.GetTypeUrl())
	r := response{t: t, nonce: m.GetNonce(), version: m.GetVersionInfo(), full: wildcard(t)}
	for _, body := range m.GetResources() {
		name := nameOf(t, body)
		r.resources = append(r.resources, received{name: name, version: hashOf(body), body: body})
	}
	return r, nil
}

func (c stateClient) send(q request) error {
	return c.stream.Send(&discoveryv3.DiscoveryRequest{
		Node: q.node, TypeUrl: q.t.URL(), ResourceNames: q.all, VersionInfo: q.version, ResponseNonce: q.nonce,
		ErrorDetail: detail(q.nack),
	})
}

func detail(nack string) *status.Status {
	if nack == "" {
		return nil
	}
	return &status.Status{Code: 13, Message: nack}
}
