package envoy

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// script is a picker's behaviour for one pool.
type script struct {
	endpoints string // the list in the answer; "" for no pick
	status    int    // HTTP status of an immediate response; 0: no immediate response
	size      int    // bytes of the immediate response's body; 0: a few words
	silent    bool   // the picker never answers
	quits     bool   // the picker ends the call when the body arrives
	retries   string // value of x-envoy-max-retries
	duplex    bool   // the picker sends the body back, as FULL_DUPLEX_STREAMED requires
	// The picker acknowledges each chunk without sending it back, and picks at the end of the body
	// (like the reference picker lwepp v1.6.0).
	plain bool
}

type asked struct {
	pool     string
	metadata metadata.MD
	headers  map[string]string
	body     int // size in bytes
	served   string
}

type picker struct {
	extprocv3.UnimplementedExternalProcessorServer
	address netip.AddrPort

	mu      sync.Mutex
	scripts map[string]script
	calls   []asked
}

const extProcService = "envoy.service.ext_proc.v3.ExternalProcessor"

// startPicker serves until the test ends. An option is a grpc.ServerOption or a further service.
// Without a health service in options, health checks get SERVING.
func startPicker(t testing.TB, scripts map[string]script, options ...any) *picker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &picker{address: netip.MustParseAddrPort(l.Addr().String()), scripts: scripts}
	config := []grpc.ServerOption{grpc.MaxRecvMsgSize(64 << 20)}
	for _, o := range options {
		if o, ok := o.(grpc.ServerOption); ok {
			config = append(config, o)
		}
	}
	s := grpc.NewServer(config...)
	for _, o := range options {
		if o, ok := o.(alsv3.AccessLogServiceServer); ok {
			alsv3.RegisterAccessLogServiceServer(s, o)
		}
	}
	extprocv3.RegisterExternalProcessorServer(s, p)
	h := health.NewServer()
	h.SetServingStatus(extProcService, healthv1.HealthCheckResponse_SERVING)
	for _, o := range options {
		if o, ok := o.(*health.Server); ok {
			h = o
		}
	}
	healthv1.RegisterHealthServer(s, h)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return p
}

func (p *picker) seen(pool string) []asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.calls), func(a asked) bool { return a.pool != pool })
}

func (p *picker) script(pool string) script {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scripts[pool]
}

func (p *picker) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	md, _ := metadata.FromIncomingContext(s.Context())
	a := asked{metadata: md, headers: map[string]string{}}
	if v := md.Get(metaPool); len(v) > 0 {
		a.pool = strings.TrimPrefix(v[0], "ns/")
	}
	sc := p.script(a.pool)
	defer func() {
		p.mu.Lock()
		p.calls = append(p.calls, a)
		p.mu.Unlock()
	}()
	for {
		req, err := s.Recv()
		if err != nil {
			return nil
		}
		if sc.silent {
			continue
		}
		if sc.quits && req.GetRequestBody() != nil {
			return status.Error(codes.Unavailable, "killed")
		}
		if md := req.MetadataContext.GetFilterMetadata()["envoy.lb"]; md != nil {
			a.served = md.Fields[servedKey].GetStringValue()
		}
		for _, resp := range sc.answer(req, &a) {
			if err := s.Send(resp); err != nil {
				return nil
			}
		}
		if buffers(req) && a.stream() {
			return nil // otherwise Envoy would buffer the stream (as picker/extproc does)
		}
	}
}

func buffers(req *extprocv3.ProcessingRequest) bool {
	return req.GetProtocolConfig().GetRequestBodyMode() == filterv3.ProcessingMode_BUFFERED
}

// stream reports whether the request's body may be a stream without end.
func (a *asked) stream() bool {
	content := a.headers["content-type"]
	return a.headers["upgrade"] != "" || strings.HasPrefix(content, "application/grpc") ||
		strings.HasPrefix(content, "multipart/")
}

func (sc script) answer(req *extprocv3.ProcessingRequest, a *asked) []*extprocv3.ProcessingResponse {
	switch m := req.Request.(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		for _, h := range m.RequestHeaders.Headers.Headers {
			a.headers[h.Key] = string(h.RawValue)
		}
		if (sc.duplex || sc.plain) && !m.RequestHeaders.EndOfStream {
			return nil // an external picker reads the body first
		}
		return []*extprocv3.ProcessingResponse{sc.pick()}
	case *extprocv3.ProcessingRequest_RequestBody:
		a.body += len(m.RequestBody.Body)
		if !sc.duplex {
			done := &extprocv3.ProcessingResponse{
				Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}},
			}
			if pick := sc.pick(); sc.plain && m.RequestBody.EndOfStream && sc.status != 0 {
				return []*extprocv3.ProcessingResponse{pick}
			} else if sc.plain && m.RequestBody.EndOfStream {
				return []*extprocv3.ProcessingResponse{pick, done}
			}
			return []*extprocv3.ProcessingResponse{done}
		}
		return sc.sendBack(m.RequestBody, a)
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return []*extprocv3.ProcessingResponse{
			{Response: &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}}},
		}
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return []*extprocv3.ProcessingResponse{
			{Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}}},
		}
	}
	return nil
}

// sendBack sends the body back chunk by chunk. The pick precedes the first chunk.
func (sc script) sendBack(b *extprocv3.HttpBody, a *asked) []*extprocv3.ProcessingResponse {
	var out []*extprocv3.ProcessingResponse
	if first := a.body == len(b.Body); first {
		out = append(out, sc.pick())
		if sc.status != 0 {
			return out
		}
	}
	const most = 62 << 10
	for rest := b.Body; ; {
		n := min(len(rest), most)
		chunk := &extprocv3.StreamedBodyResponse{Body: rest[:n], EndOfStream: b.EndOfStream && n == len(rest)}
		common := &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{
			Mutation: &extprocv3.BodyMutation_StreamedResponse{StreamedResponse: chunk},
		}}
		out = append(out, &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
			RequestBody: &extprocv3.BodyResponse{Response: common},
		}})
		if rest = rest[n:]; len(rest) == 0 {
			return out
		}
	}
}

func (sc script) pick() *extprocv3.ProcessingResponse {
	if sc.status != 0 {
		text := []byte("the picker rejects")
		if sc.size > 0 {
			text = bytes.Repeat([]byte("x"), sc.size)
		}
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
			ImmediateResponse: &extprocv3.ImmediateResponse{
				Status: &typev3.HttpStatus{Code: typev3.StatusCode(sc.status)},
				Body:   text,
			},
		}}
	}
	mutation := &extprocv3.HeaderMutation{}
	set := func(k, v string) {
		mutation.SetHeaders = append(mutation.SetHeaders, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: k, RawValue: []byte(v)},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	resp := &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{HeaderMutation: mutation}},
	}}
	if sc.endpoints != "" {
		set(endpointHeader, sc.endpoints)
		resp.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			"envoy.lb": structpb.NewStructValue(field(endpointHeader, structpb.NewStringValue(sc.endpoints))),
			"penstock": structpb.NewStructValue(field("lease", structpb.NewStringValue("lease of "+sc.endpoints))),
		}}
	}
	if sc.retries != "" {
		set("x-envoy-max-retries", sc.retries)
	}
	return resp
}
