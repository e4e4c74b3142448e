package extproc

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/picker/request"
)

type fakePicker struct {
	policy BodyPolicy
	answer func(*Request) Answer
	set    Header  // set by responses
	held   *Bodies // nil means the default

	mu       sync.Mutex
	asked    []Request
	bodies   []string
	served   []string
	statuses []int
	begun    int
	ended    chan struct{}
}

func (p *fakePicker) Begin(_ context.Context, r *Request) (Pick, error) { return fakePick{p, r}, nil }

type fakePick struct {
	p *fakePicker
	r *Request
}

func (f fakePick) Body() BodyPolicy { return f.p.policy }

func (f fakePick) Replacement(model string) *request.Target {
	if model == "public" {
		return request.NewTarget("v1")
	}
	return nil
}

func (f fakePick) End() {}

func (f fakePick) Answer() Answer {
	p, r := f.p, f.r
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, *r)
	p.bodies = append(p.bodies, string(r.Body.Materialize()))
	if p.answer != nil {
		return p.answer(r)
	}
	return Answer{Endpoints: List{"10.0.0.1:8000", "10.0.0.2:8000"}, MaxRetries: 1, Pool: "ns/pool",
		Lease: Lease{"me", 1}, Track: p}
}

func (p *fakePicker) Response(response Response) Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statuses, p.served = append(p.statuses, response.Status), append(p.served, response.Served)
	return p.set
}

func (p *fakePicker) Begun() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
}

func (p *fakePicker) End() { close(p.ended) }

func start(t testing.TB, p *fakePicker) *grpc.ClientConn {
	t.Helper()
	return startWith(t, p, Config{})
}

func startWith(t testing.TB, p *fakePicker, c Config) *grpc.ClientConn {
	t.Helper()
	p.ended = make(chan struct{})
	if p.policy.Limit == 0 {
		p.policy.Limit = 1 << 20
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(Codec()))
	c.Picker = p
	if p.held != nil {
		c.Bodies = p.held
	}
	New(c).Register(server)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

type client struct {
	extprocv3.ExternalProcessor_ProcessClient
	t      testing.TB
	cancel context.CancelFunc
}

func open(t testing.TB, conn *grpc.ClientConn, pairs ...string) client {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), pairs...), 20*time.Second)
	t.Cleanup(cancel)
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return client{stream, t, cancel}
}

func (k client) send(r *extprocv3.ProcessingRequest) {
	k.t.Helper()
	if err := k.Send(r); err != nil {
		k.t.Fatal(err)
	}
}

func (k client) receive() *extprocv3.ProcessingResponse {
	k.t.Helper()
	p, err := k.Recv()
	if err != nil {
		k.t.Fatal(err)
	}
	return p
}

// expectEnd closes the client's side of the stream, and expects the stream's end as the server's
// only reaction.
func (k client) expectEnd() {
	k.t.Helper()
	_ = k.CloseSend()
	if p, err := k.Recv(); err == nil {
		k.t.Fatalf("got %v, want the end of the stream", p)
	}
}

func headersOf(mode filterv3.ProcessingMode_BodySendMode, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{EndOfStream: end,
			Headers: &corev3.HeaderMap{
				Headers: []*corev3.HeaderValue{{Key: ":path", RawValue: []byte("/v1/completions")}},
			}}},
		ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: mode, ResponseBodyMode: mode},
	}
}

func bodyOf(text string, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
		RequestBody: &extprocv3.HttpBody{Body: []byte(text), EndOfStream: end}}}
}

var trailers = &extprocv3.ProcessingRequest{
	Request: &extprocv3.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocv3.HttpTrailers{}},
}

func picked(p *extprocv3.ProcessingResponse, common *extprocv3.CommonResponse) (header, meta string) {
	for _, h := range common.GetHeaderMutation().GetSetHeaders() {
		if h.Header.Key == keyDestination {
			header = string(h.Header.RawValue)
		}
	}
	return header,
		p.GetDynamicMetadata().GetFields()[namespaceLB].GetStructValue().GetFields()[keyDestination].GetStringValue()
}

func wantPick(t *testing.T, p *extprocv3.ProcessingResponse, common *extprocv3.CommonResponse) {
	t.Helper()
	header, meta := picked(p, common)
	if header == "" || header != meta {
		t.Fatalf("header %q, metadata %q in %v; want one pick in both", header, meta, p)
	}
}

const (
	modeNone     = filterv3.ProcessingMode_NONE
	modeBuffered = filterv3.ProcessingMode_BUFFERED
	modeDuplex   = filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
	modeStreamed = filterv3.ProcessingMode_STREAMED
)

func TestExtProc_HeaderAndMetadataNameTheSameEndpoints(t *testing.T) {
	for _, mode := range []filterv3.ProcessingMode_BodySendMode{modeNone, modeStreamed, modeBuffered, modeDuplex} {
		p := &fakePicker{}
		k := open(t, start(t, p), MetadataKeyPool, "ns/pool", MetadataKeyRetries, "4", MetadataKeySpill,
			"envoy://a/,envoy://b/", "traceparent", "00-x")
		k.send(headersOf(mode, false))
		r := k.receive()
		wantPick(t, r, r.GetRequestHeaders().GetResponse())
		k.cancel()
		<-p.ended
		q := p.asked[0]
		if q.Pool != "ns/pool" || q.Retries != 4 || strings.Join(q.Spill, " ") != "envoy://a/ envoy://b/" ||
			q.TraceParent != "00-x" {
			t.Errorf("the call's metadata: got %+v, want pool ns/pool, 4 retries, two spills, and the trace", q)
		}
	}
}

func TestExtProc_BufferedBodyIsReadBeforePick(t *testing.T) {
	p := &fakePicker{policy: BodyPolicy{Wait: true, Whole: true}}
	k := open(t, start(t, p))
	k.send(headersOf(modeBuffered, false))
	if r := k.receive(); r.GetRequestHeaders() == nil || r.DynamicMetadata != nil {
		t.Fatalf("answer to headers: got %v, want headers without a pick", r)
	}
	body := `{"model":"llama","stream":true,"pad":"` + strings.Repeat("z", 300<<10) + `"}`
	k.send(bodyOf(body, true))
	r := k.receive()
	wantPick(t, r, r.GetRequestBody().GetResponse())
	if f := p.asked[0].Facts; f.Model != "llama" || !f.Stream || f.Size != len(body) || p.bodies[0] != body {
		t.Errorf("facts %+v, want model llama, streamed, of %d bytes, all of them read", f, len(body))
	}
}

func TestExtProc_RequestWithoutBodyIsPickedAtOnce(t *testing.T) {
	p := &fakePicker{policy: BodyPolicy{Wait: true}}
	k := open(t, start(t, p))
	k.send(headersOf(modeBuffered, true))
	r := k.receive()
	wantPick(t, r, r.GetRequestHeaders().GetResponse())
}

func TestExtProc_BufferedTrailersWithoutBodyAreAnswered(t *testing.T) {
	k := open(t, start(t, &fakePicker{policy: BodyPolicy{Wait: true}}))
	k.send(headersOf(modeBuffered, false))
	k.receive()
	k.send(trailers)
	r := k.receive()
	if _, meta := picked(r, nil); r.GetRequestTrailers() == nil || meta == "" {
		t.Errorf("got %v, want trailers with a pick", r)
	}
}

func (k client) readBody(end bool) string {
	k.t.Helper()
	var body bytes.Buffer
	for {
		r := k.receive()
		s := r.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if s == nil {
			if end || r.GetRequestTrailers() == nil {
				k.t.Fatalf("got %v, want a chunk, or trailers at the end", r)
			}
			return body.String()
		}
		if len(s.Body) > MaxChunk {
			k.t.Errorf("a chunk of %d bytes, want at most %d", len(s.Body), MaxChunk)
		}
		body.Write(s.Body)
		if s.EndOfStream {
			return body.String()
		}
	}
}

func TestExtProc_FullDuplexReturnsWholeBodyInChunks(t *testing.T) {
	first, second := strings.Repeat("a", 200<<10), strings.Repeat("b", 3*MaxChunk)
	for _, wait := range []bool{false, true} {
		p := &fakePicker{policy: BodyPolicy{Wait: wait, Limit: 4 << 20}}
		k := open(t, start(t, p))
		k.send(headersOf(modeDuplex, false))
		k.send(bodyOf(first, false))
		k.send(bodyOf(second, true))
		r := k.receive()
		wantPick(t, r, r.GetRequestHeaders().GetResponse())
		if got := k.readBody(true); got != first+second {
			t.Errorf("wait %v: %d bytes of %d were sent back, want all unchanged", wait, len(got), len(first+second))
		}
		k.send(bodyOf("", true)) // the body's end a second time
		k.expectEnd()
	}
}

func TestExtProc_FullDuplexEndsWithTrailersOrEmptyChunk(t *testing.T) {
	for _, wait := range []bool{false, true} {
		k := open(t, start(t, &fakePicker{policy: BodyPolicy{Wait: wait}}))
		k.send(headersOf(modeDuplex, false))
		k.send(bodyOf("body", false))
		k.send(trailers)
		k.receive()
		if got := k.readBody(false); got != "body" {
			t.Errorf(`wait %v: %q before the trailers, want "body"`, wait, got)
		}

		k = open(t, start(t, &fakePicker{policy: BodyPolicy{Wait: wait}}))
		k.send(headersOf(modeDuplex, false))
		k.send(bodyOf("body", false))
		k.send(bodyOf("", true))
		k.receive()
		if got := k.readBody(true); got != "body" {
			t.Errorf(`wait %v: %q before an empty end, want "body"`, wait, got)
		}
	}
}

func TestExtProc_UnknownModeUsesAssumedOne(t *testing.T) {
	k := open(t, start(t, &fakePicker{policy: BodyPolicy{Wait: true, Assume: ModeFullDuplexStreamed}}))
	headers := headersOf(modeNone, false)
	headers.ProtocolConfig = nil
	k.send(headers)
	k.send(bodyOf("body", true))
	r := k.receive()
	wantPick(t, r, r.GetRequestHeaders().GetResponse())
	if got := k.readBody(true); got != "body" {
		t.Errorf(`%q, want "body"`, got)
	}
}

func TestExtProc_ImmediateResponseIsTheLastMessage(t *testing.T) {
	for _, status := range []int{429, 503} {
		p := &fakePicker{policy: BodyPolicy{Wait: true}, answer: func(*Request) Answer {
			return Answer{Status: status, Reason: "why", Message: `a "quoted" word`}
		}}
		k := open(t, start(t, p))
		k.send(headersOf(modeDuplex, false))
		k.send(bodyOf("{}", true))
		i := k.receive().GetImmediateResponse()
		if int(i.GetStatus().GetCode()) != status ||
			!strings.Contains(string(i.GetBody()), `"message":"a \"quoted\" word"`) {
			t.Errorf("got %v, want status %d with the quoted message", i, status)
		}
		k.send(bodyOf("", true))
		k.expectEnd()
	}
}

func TestExtProc_BodyAboveLimitGets413(t *testing.T) {
	k := open(t, start(t, &fakePicker{policy: BodyPolicy{Wait: true, Limit: 10}}))
	k.send(headersOf(modeDuplex, false))
	k.send(bodyOf("0123456789a", true))
	if i := k.receive().GetImmediateResponse(); i.GetStatus().GetCode() != 413 {
		t.Errorf("got %v, want 413", i)
	}
}

func TestExtProc_ServedEndpointIsReportedToTracker(t *testing.T) {
	p := &fakePicker{set: Header{Name: "x-token", Value: "t"}}
	k := open(t, start(t, p))
	k.send(headersOf(modeNone, true))
	k.receive()
	served, _ := structpb.NewStruct(map[string]any{keyServed: "10.0.0.2:8000"})
	k.send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
			Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":status", RawValue: []byte("503")}}}}},
		MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{namespaceLB: served}},
	})
	r := k.receive()
	set := r.GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders()
	if len(set) != 1 || set[0].GetHeader().GetKey() != "x-token" || string(set[0].GetHeader().GetRawValue()) != "t" {
		t.Errorf("got %v, want the tracker's header x-token: t", r)
	}
	if r.GetResponseHeaders() == nil {
		t.Errorf("got %v, want response headers", r)
	}
	k.cancel()
	<-p.ended
	if len(p.served) != 1 || p.served[0] != "10.0.0.2:8000" || p.statuses[0] != 503 {
		t.Errorf("served %v, status %v; want 10.0.0.2:8000 once, with 503", p.served, p.statuses)
	}
}

func TestExtProc_FirstByteIsThatOfABodyThatArrives(t *testing.T) {
	for mode, want := range map[filterv3.ProcessingMode_BodySendMode]int{
		modeStreamed: 1, modeDuplex: 1, modeBuffered: 0, filterv3.ProcessingMode_BUFFERED_PARTIAL: 0,
	} {
		p := &fakePicker{}
		k := open(t, start(t, p))
		k.send(headersOf(mode, true))
		k.receive()
		for _, text := range []string{"", "first", "second"} {
			k.send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
				ResponseBody: &extprocv3.HttpBody{Body: []byte(text)}}})
		}
		_ = k.CloseSend()
		for err := error(nil); err == nil; {
			_, err = k.Recv()
		}
		<-p.ended
		if p.begun != want {
			t.Errorf("%s: %d first bytes, want %d", mode, p.begun, want)
		}
	}
}

func TestExtProc_FullDuplexReturnsWholeResponseBody(t *testing.T) {
	k := open(t, start(t, &fakePicker{}))
	k.send(headersOf(modeDuplex, true))
	k.receive()
	sent := strings.Repeat("r", 2*MaxChunk+5)
	k.send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocv3.HttpBody{Body: []byte(sent), EndOfStream: true}}})
	var got strings.Builder
	for {
		s := k.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		got.Write(s.GetBody())
		if s.GetEndOfStream() {
			break
		}
	}
	if got.String() != sent {
		t.Errorf("got %d bytes of %d, want all unchanged", got.Len(), len(sent))
	}
}

func TestExtProc_ObservabilityModeGetsNoResponse(t *testing.T) {
	p := &fakePicker{}
	k := open(t, start(t, p))
	m := headersOf(modeNone, true)
	m.ObservabilityMode = true
	k.send(m)
	k.expectEnd()
	if len(p.asked) != 0 {
		t.Error("the picker was asked in observability mode")
	}
}

func TestExtProc_ServesHealthAndReflectionOnSameServer(t *testing.T) {
	conn := start(t, &fakePicker{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil || r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: got %v %v, want SERVING", r, err)
	}
	info, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := info.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: ServiceName,
		}}); err != nil {
		t.Fatal(err)
	}
	if answer, err := info.Recv(); err != nil || answer.GetFileDescriptorResponse() == nil {
		t.Errorf("reflection: got %v %v, want a file descriptor", answer, err)
	}
}
