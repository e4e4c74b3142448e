package picker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/penstock-project/penstock/picker/dial"
)

// In every body mode in which the picker gets the body before the pick, the server gets the
// processor's tokens. In STREAMED, the picker only removes "route" from the body.
func TestProcessor_EnvoySendsItsTokensInEveryMode(t *testing.T) {
	modes := map[string]string{"buffered": buffered, "duplex": duplex, "streamed": streamed}
	var routes []route
	for name, mode := range modes {
		routes = append(routes, route{Name: name, Cluster: "closed", Mode: mode, Allow: true})
	}
	g := startGateway(t, routes...)
	s := startProcessor(t)
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: g.endpoints(), Body: BodyBuffered,
			Processor: &s.Processor})
	second := g.endpoints()[1].Addr.String()
	for mode := range modes {
		for _, size := range []int{0, 300, 200 << 10} {
			s.set(fmt.Sprintf(`{"worker_address":%q,"token_key":"k1","token_value":"[1,2]"}`, second), http.StatusOK)
			sent := fmt.Sprintf(`{"seed":9007199254740993,"route":true,"model":"m","token_ids":[7],"prompt":"<b>%s"}`,
				strings.Repeat("x", size))
			response, text := g.post(t, "/"+mode+"/v1/completions", []byte(sent))
			if response.StatusCode != http.StatusOK || mode != "streamed" && response.Header.Get("x-pod") != "pod-1" {
				t.Errorf("%s, %d bytes: got %s from %s, want 200 from pod-1 unless streamed: %.200s",
					mode, size, response.Status, response.Header.Get("x-pod"), text)
			}
			want := strings.Replace(sent, `"route":true,`, "", 1)
			if mode != "streamed" {
				want = `{"token_ids":[1,2],` + strings.Replace(want, `"token_ids":[7],`, "", 1)[1:]
			}
			pod := g.pods[0]
			if response.Header.Get("x-pod") == "pod-1" {
				pod = g.pods[1]
			}
			header, got := pod.received()
			if string(got) != want || (header.Get("X-Req-Tokens-Key") == "k1") != (mode != "streamed") {
				t.Errorf("%s, %d bytes, key %q: got %.100s, want %.100s, and key k1 unless streamed",
					mode, size, header.Get("X-Req-Tokens-Key"), got, want)
			}
			if length := header.Get("Content-Length"); length != "" && length != fmt.Sprint(len(got)) {
				t.Errorf("%s: content-length %s, want %d", mode, length, len(got))
			}
		}
	}
}

// A processor may take longer than Envoy's timeout of a pick (2 s).
func TestProcessor_DeadlineExtendsTheWaitOfEnvoy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Millisecond):
			fmt.Fprint(w, `{"token_key":"late"}`)
		}
	}))
	t.Cleanup(server.Close)
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	processor := &Processor{Host: "p:1", Timeout: 30 * time.Second,
		Addresses: []dial.Address{
			{AddrPort: netip.MustParseAddrPort(server.Listener.Addr().String()), Cleartext: true},
		}}
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Default: true, Endpoints: specs("10.0.0.1:80"), Processor: processor,
			Body: BodyBuffered})
	stream, _ := call(t, dialPicker(t, address))
	bufferedRequest(t, stream, `{"prompt":"a"}`)
	r, err := stream.Recv()
	if err != nil || r.GetOverrideMessageTimeout().AsDuration() != 35*time.Second {
		t.Errorf("got %v %v, want it to ask for 35s", r, err)
	}
	if r, err = stream.Recv(); err != nil || !strings.Contains(r.String(), "x-req-tokens-key") {
		t.Errorf("got %v %v, want x-req-tokens-key", r, err)
	}
}

// The processor's call has a client span below the pick's span. The processor receives this client
// span's context.
func TestProcessor_CallHasASpan(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	p := runPicker(t, Config{Tracer: trace.NewTracerProvider(trace.WithSpanProcessor(spans))})
	_, address := servePicker(t, p)
	s := startProcessor(t)
	s.set(`{"token_value":"[1,2,3]"}`, http.StatusOK)
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Endpoints: specs("10.0.0.1:80"), Processor: &s.Processor, Body: BodyBuffered})
	stream, cancel := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool", "traceparent",
		"00-0af7651916cd43dd8448eb211c80319c-00000000000000aa-01")
	bufferedRequest(t, stream, `{"prompt":"a"}`)
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	ended := spans.Ended()
	if len(ended) != 2 || ended[0].Name() != "POST /process" ||
		ended[0].Parent().SpanID() != ended[1].SpanContext().SpanID() ||
		!strings.Contains(fmt.Sprint(ended[0].Attributes()), "penstock.process.tokens") {
		t.Fatalf("got spans %v, want POST /process within the pick, with its tokens", ended)
	}
	if !strings.Contains(s.trace, ended[0].SpanContext().SpanID().String()) {
		t.Errorf("the processor gets trace context %q, want span %s", s.trace, ended[0].SpanContext().SpanID())
	}
}

func bufferedRequest(t *testing.T, stream extprocv3.ExternalProcessor_ProcessClient, body string) {
	t.Helper()
	headers := headerMessage(nil, ":path", "/v1/completions", ":method", "POST")
	headers.GetRequestHeaders().EndOfStream = false
	headers.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED}
	exchange(t, stream, headers)
	if err := stream.Send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: []byte(body), EndOfStream: true},
		},
	}); err != nil {
		t.Fatal(err)
	}
}
