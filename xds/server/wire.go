package server

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/xds/admission"
	"github.com/penstock-project/penstock/xds/publish"
)

type wire interface {
	receive() (request, error)
	send(*publish.Response) (size int, err error)
	stateOfTheWorld() bool
}

type request struct {
	node    *corev3.Node
	profile string
	url     string
	nonce   string
	nack    string
	delta   *deltaRequest
	state   *discoveryv3.DiscoveryRequest
}

func orUnexplained(message string) string {
	if message == "" {
		return "NACK without an error detail"
	}
	return clip(message, maxDetail)
}

type deltaWire struct {
	stream grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
}

func (w deltaWire) receive() (request, error) {
	m := &deltaRequest{}
	if err := w.stream.RecvMsg(m); err != nil {
		return request{}, err
	}
	admission.Received(w.stream.Context(), len(m.text))
	r := request{node: m.node, url: m.url, nonce: m.nonce, delta: m}
	if m.nack {
		r.nack = orUnexplained(m.message)
	}
	return r, nil
}

func (w deltaWire) send(r *publish.Response) (int, error) {
	m := encodeDelta(r)
	return m.size, w.stream.SendMsg(m)
}

func (deltaWire) stateOfTheWorld() bool { return false }

type stateWire struct {
	stream grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]
}

func (w stateWire) receive() (request, error) {
	m, err := w.stream.Recv()
	if err != nil {
		return request{}, err
	}
	r := request{node: m.GetNode(), url: m.GetTypeUrl(), nonce: m.GetResponseNonce(), state: m}
	if m.GetErrorDetail() != nil {
		r.nack = orUnexplained(m.GetErrorDetail().GetMessage())
	}
	return r, nil
}

func (w stateWire) send(r *publish.Response) (int, error) {
	m := encodeState(r)
	return m.size, w.stream.SendMsg(m)
}

func (stateWire) stateOfTheWorld() bool { return true }
