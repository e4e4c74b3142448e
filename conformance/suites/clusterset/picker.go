package main

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/conformance/lab/pki"
)

// Names of the endpoint picker protocol (docs/proposals/004-endpoint-picker-protocol).
const (
	extProcService   = "envoy.service.ext_proc.v3.ExternalProcessor"
	endpointKey      = "x-gateway-destination-endpoint"
	servedKey        = "x-gateway-destination-endpoint-served"
	endpointMetadata = "envoy.lb"
)

// picker is an endpoint picker with scripted answers. It serves TLS with a self-signed certificate,
// as the protocol's own picker does.
type picker struct {
	extprocv3.UnimplementedExternalProcessorServer
	address netip.AddrPort

	mu     sync.Mutex
	names  netip.AddrPort
	status int // of an immediate response; 0: the picker picks
	calls  map[string]call
}

type call struct {
	count  int
	body   int
	served string
}

func (r *run) picker(names netip.AddrPort) *picker {
	certificate, err := selfSigned()
	r.must(err)
	l, err := net.Listen("tcp", netip.AddrPortFrom(names.Addr(), 0).String())
	r.must(err)
	p := &picker{address: netip.MustParseAddrPort(l.Addr().String()), names: names, calls: map[string]call{}}
	s := grpc.NewServer(
		grpc.Creds(
			credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate},
				MinVersion: tls.VersionTLS12})), grpc.MaxRecvMsgSize(64<<20))
	extprocv3.RegisterExternalProcessorServer(s, p)
	h := health.NewServer()
	h.SetServingStatus(extProcService, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(s, h)
	go func() { _ = s.Serve(l) }()
	r.after = append(r.after, s.Stop)
	return p
}

func selfSigned() (tls.Certificate, error) {
	own, err := pki.NewAuthority("picker", time.Now())
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(own.Certificate, own.Key)
}

func (p *picker) follow(names netip.AddrPort, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names, p.status = names, status
}

func (p *picker) call(id int) call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[strconv.Itoa(id)]
}

func (p *picker) note(id string, f func(*call)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[id]
	f(&c)
	p.calls[id] = c
}

func (p *picker) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	var id string
	mode := filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
	var held []byte
	for {
		req, err := s.Recv()
		if err != nil {
			return nil // the gateway has ended the call
		}
		if c := req.GetProtocolConfig(); c != nil {
			mode = c.GetRequestBodyMode()
		}
		streamed := mode == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
		var out []*extprocv3.ProcessingResponse
		switch m := req.Request.(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			for _, h := range m.RequestHeaders.GetHeaders().GetHeaders() {
				if h.Key == idHeader {
					id = h.Value + string(h.RawValue)
				}
			}
			p.note(id, func(c *call) { c.count++ })
			if !streamed || m.RequestHeaders.EndOfStream {
				out = append(out, p.pick())
			}
		case *extprocv3.ProcessingRequest_RequestBody:
			p.note(id, func(c *call) { c.body += len(m.RequestBody.Body) })
			if !streamed {
				out = append(out, &extprocv3.ProcessingResponse{
					Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}},
				})
				break
			}
			held = append(held, m.RequestBody.Body...)
			if m.RequestBody.EndOfStream {
				out = append(append(out, p.pick()), sendBack(held, true)...)
			}
		case *extprocv3.ProcessingRequest_RequestTrailers:
			if streamed {
				out = append(append(out, p.pick()), sendBack(held, false)...)
			}
			out = append(out, &extprocv3.ProcessingResponse{
				Response: &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}},
			})
		case *extprocv3.ProcessingRequest_ResponseHeaders:
			fields := req.GetMetadataContext().GetFilterMetadata()[endpointMetadata].GetFields()
			served := fields[servedKey].GetStringValue()
			p.note(id, func(c *call) { c.served = served })
			out = append(out, &extprocv3.ProcessingResponse{
				Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}},
			})
		case *extprocv3.ProcessingRequest_ResponseBody:
			out = append(out, &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{
				ResponseBody: &extprocv3.BodyResponse{
					Response: streamedBody(m.ResponseBody.Body, m.ResponseBody.EndOfStream),
				},
			}})
		case *extprocv3.ProcessingRequest_ResponseTrailers:
			out = append(out, &extprocv3.ProcessingResponse{
				Response: &extprocv3.ProcessingResponse_ResponseTrailers{
					ResponseTrailers: &extprocv3.TrailersResponse{},
				},
			})
		}
		for _, resp := range out {
			if err := s.Send(resp); err != nil {
				return nil
			}
		}
	}
}

func (p *picker) pick() *extprocv3.ProcessingResponse {
	p.mu.Lock()
	names, status := p.names.String(), p.status
	p.mu.Unlock()
	if status != 0 {
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
			ImmediateResponse: &extprocv3.ImmediateResponse{
				Status: &typev3.HttpStatus{Code: typev3.StatusCode(status)},
			},
		}}
	}
	header := &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: endpointKey, RawValue: []byte(names)},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: &extprocv3.CommonResponse{
				HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{header}},
			},
		}},
		DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			endpointMetadata: structpb.NewStructValue(
				&structpb.Struct{Fields: map[string]*structpb.Value{endpointKey: structpb.NewStringValue(names)}}),
		}},
	}
}

func sendBack(body []byte, end bool) (out []*extprocv3.ProcessingResponse) {
	const most = 62 << 10
	for {
		n := min(len(body), most)
		last := n == len(body)
		out = append(out, &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
			RequestBody: &extprocv3.BodyResponse{Response: streamedBody(body[:n], last && end)},
		}})
		if body = body[n:]; last {
			return out
		}
	}
}

func streamedBody(body []byte, end bool) *extprocv3.CommonResponse {
	streamed := &extprocv3.BodyMutation_StreamedResponse{
		StreamedResponse: &extprocv3.StreamedBodyResponse{Body: body, EndOfStream: end},
	}
	return &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{Mutation: streamed}}
}
