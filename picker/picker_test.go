package picker

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func specs(texts ...string) []endpoint.Spec {
	var out []endpoint.Spec
	for _, text := range texts {
		out = append(out, endpoint.Spec{Addr: netip.MustParseAddrPort(text)})
	}
	return out
}

// inFlight returns how many requests are in flight at an address; 0 for one that no pool has.
func inFlight(p *Picker, address string) int64 {
	for _, pool := range p.pools.now.Load().byName {
		for i := range pool.snapshot.Endpoints {
			if e := &pool.snapshot.Endpoints[i]; e.Text == address {
				return e.State().InFlight
			}
		}
	}
	return 0
}

func dialPicker(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call opens a gateway's stream, with initial metadata in pairs.
func call(t testing.TB, conn *grpc.ClientConn, pairs ...string) (extprocv3.ExternalProcessor_ProcessClient, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), pairs...), 20*time.Second)
	t.Cleanup(cancel)
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream, cancel
}

// headerMessage is a request without a body, with a subset hint if one is given.
func headerMessage(hint any, pairs ...string) *extprocv3.ProcessingRequest {
	headers := &extprocv3.HttpHeaders{EndOfStream: true, Headers: &corev3.HeaderMap{}}
	for i := 0; i < len(pairs); i += 2 {
		headers.Headers.Headers = append(headers.Headers.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	m := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers}}
	if hint != nil {
		value, _ := structpb.NewStruct(map[string]any{"x-gateway-destination-endpoint-subset": hint})
		m.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb.subset_hint": value}}
	}
	return m
}

func exchange(t testing.TB, stream extprocv3.ExternalProcessor_ProcessClient, m *extprocv3.ProcessingRequest) *extprocv3.ProcessingResponse {
	t.Helper()
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// answered returns the list that a response names, or the status of an immediate response.
func answered(r *extprocv3.ProcessingResponse) (list string, maxRetries string, status int) {
	for _, h := range r.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		switch h.Header.Key {
		case "x-gateway-destination-endpoint":
			list = string(h.Header.RawValue)
		case "x-envoy-max-retries":
			maxRetries = string(h.Header.RawValue)
		}
	}
	return list, maxRetries, int(r.GetImmediateResponse().GetStatus().GetCode())
}

func TestSubsetHint_BindsInEveryForm(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: specs("10.0.0.1:80", "10.0.0.1:81", "10.0.0.2:80", "[fd00::1]:80")})
	conn := dialPicker(t, address)
	for _, tt := range []struct {
		hint any
		want []string // nil: 503
	}{
		{"10.0.0.2:80", []string{"10.0.0.2:80"}},
		{"10.9.9.9:80,10.0.0.1:81", []string{"10.0.0.1:81"}},
		{[]any{"10.0.0.2:80"}, []string{"10.0.0.2:80"}},
		{[]any{"10.0.0.1"}, []string{"10.0.0.1:80", "10.0.0.1:81"}},
		{[]any{"[fd00::1]:80"}, []string{"[fd00::1]:80"}},
		{"10.0.0.1:99", nil},
		{"", nil},
		{[]any{}, nil},
		{"nonsense", nil},
	} {
		for range 4 {
			stream, cancel := call(t, conn, "x-penstock-pool", "ns/pool", "x-penstock-spill", "envoy://hop/")
			list, _, status := answered(exchange(t, stream, headerMessage(tt.hint)))
			cancel()
			ok := len(tt.want) == 0 && status == 503
			for _, w := range tt.want {
				ok = ok || list == w
			}
			if !ok {
				t.Errorf("hint %v: %q %d, want one of %v", tt.hint, list, status, tt.want)
			}
		}
	}
}

func TestEndpointPicker_RetriesComposeWithTheUsers(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p,
		Pool{ID: poolID("ns/one"), Spill: []string{"envoy://b/", "envoy://c/"}, Endpoints: specs("10.0.0.1:80")},
		Pool{ID: poolID("ns/two"), Strategy: "round-robin", Fallbacks: 5, Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")},
		Pool{ID: poolID("ns/none"), Spill: []string{"envoy://b/"}},
		Pool{ID: poolID("ns/default"), Default: true, Endpoints: specs("10.0.0.9:80")})
	conn := dialPicker(t, address)
	for _, tt := range []struct {
		pool, retries, spill, header string
		want                         string
	}{
		{"ns/one", "", "", "", "10.0.0.1:80 0"},
		{"ns/one", "2", "", "", "10.0.0.1:80,10.0.0.1:80,10.0.0.1:80 2"},
		{"ns/one", "1", "", "2", "10.0.0.1:80,10.0.0.1:80,10.0.0.1:80 2"},
		{"ns/one", "", "envoy://b/,envoy://c/", "", "10.0.0.1:80,envoy://b/,envoy://c/ 2"},
		{"ns/two", "1", "", "", "10.0.0.1:80,10.0.0.2:80,10.0.0.1:80,10.0.0.2:80,10.0.0.1:80 4"},
		{"ns/none", "", "envoy://b/", "", "envoy://b/ 0"},
		{"ns/none", "", "envoy://new/,envoy://b/", "", "envoy://b/ 0"}, // Envoy does not have the first one yet
		{"", "", "", "", "10.0.0.9:80 "},                               // the retry policy of a gateway that Penstock does not configure stays
		{"", "", "", "2", "10.0.0.9:80 "},
	} {
		var pairs []string
		for key, value := range map[string]string{"x-penstock-pool": tt.pool, "x-penstock-retries": tt.retries, "x-penstock-spill": tt.spill} {
			if value != "" {
				pairs = append(pairs, key, value)
			}
		}
		var header []string
		if tt.header != "" {
			header = []string{"x-envoy-max-retries", tt.header}
		}
		stream, cancel := call(t, conn, pairs...)
		list, retries, _ := answered(exchange(t, stream, headerMessage(nil, header...)))
		cancel()
		if got := list + " " + retries; got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

func TestLease_WithoutAccessLogEndsWithStream(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true, Strategy: "round-robin", Fallbacks: 1, Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")})
	stream, cancel := call(t, dialPicker(t, address))
	exchange(t, stream, headerMessage(nil))
	counts := func() [2]int64 { return [2]int64{inFlight(p, "10.0.0.1:80"), inFlight(p, "10.0.0.2:80")} }
	if got := counts(); got != [2]int64{1, 0} {
		t.Errorf("after the pick: %v", got)
	}
	served, _ := structpb.NewStruct(map[string]any{"x-gateway-destination-endpoint-served": "10.0.0.2:80"})
	exchange(t, stream, &extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
			Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":status", RawValue: []byte("200")}}}}},
		MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": served}},
	})
	if got := counts(); got != [2]int64{0, 1} {
		t.Errorf("after the second endpoint served: %v", got)
	}
	cancel()
	poll.Until(t, "the stream's end", func() bool { return counts() == [2]int64{} })
}

func TestEndpointPicker_ExplainsWhyAnEndpointIsNotFresh(t *testing.T) {
	status := func(code int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	p := runPicker(t, Config{})
	setPools(t, p, Pool{ID: poolID("ns/loaded"), Endpoints: specs(status(404))}, Pool{ID: poolID("ns/turns"), Strategy: "round-robin", Endpoints: specs("10.0.0.1:80")})
	for pool, want := range map[string]string{"ns/loaded": "/metrics: status 404", "ns/turns": "its metrics page is not read: the pool's strategy needs none"} {
		poll.Until(t, pool, func() bool {
			v := p.Explain(pool, nil).Verdicts[0]
			return !v.State.Fresh && strings.Contains(v.Problem, want)
		})
	}
}

func TestEndpointPicker_InvalidPoolKeepsLastGood(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p, Pool{ID: poolID("ns/a"), Strategy: "round-robin", Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")}, Pool{ID: poolID("ns/gone"), Endpoints: specs("10.0.0.3:80")})
	if e := p.Explain("ns/a", nil); e.Endpoints != "10.0.0.1:80" {
		t.Errorf("%+v", e)
	}
	err := p.SetPools([]Pool{{ID: poolID("ns/a"), Strategy: "nonsense"}, {ID: poolID("ns/b"), Endpoints: specs("10.0.0.4:80")}, {ID: poolID("ns/b")}})
	if err == nil || !strings.Contains(err.Error(), `pool ns/a: unknown strategy "nonsense"`) || !strings.Contains(err.Error(), "pool ns/b is given twice") {
		t.Errorf("error %v", err)
	}
	if e := p.Explain("ns/a", nil); e.Endpoints != "10.0.0.1:80" || e.Strategy != "round-robin" {
		t.Errorf("the last good configuration is lost: %+v", e)
	}
	if p.Explain("ns/gone", nil).Known || !p.Explain("ns/b", nil).Known {
		t.Errorf("pools: %v", p.Pools())
	}
	if p.registry.Find(netip.MustParseAddrPort("10.0.0.3:80")) != nil {
		t.Error("a removed pool's endpoint is still known")
	}
	if err := p.Update(Pool{ID: poolID("ns/c")}); err != nil || !p.Explain("ns/c", nil).Known {
		t.Error(err)
	}
	p.Remove(poolID("ns/c"))
	if p.Explain("ns/c", nil).Known {
		t.Error("c is still there")
	}
}

func TestEndpointPicker_HealthServesOncePoolsAreSet(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	client := grpc_health_v1.NewHealthClient(dialPicker(t, address))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	status := func(name string) string {
		r, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.String()
	}
	if status("liveness") != "SERVING" {
		t.Error("not alive")
	}
	watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: "envoy.service.ext_proc.v3.ExternalProcessor"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.Status.String() != "NOT_SERVING" {
		t.Errorf("%v %v", r, err)
	}
	setPools(t, p)
	if r, err := watch.Recv(); err != nil || r.Status.String() != "SERVING" {
		t.Errorf("%v %v", r, err)
	}
	for _, name := range []string{"", "readiness", "inference-extension"} {
		if s := status(name); s != "SERVING" {
			t.Errorf("%q: %s", name, s)
		}
	}
}

func TestTracing_PickIsSpanOfSampledCall(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	p := runPicker(t, Config{Tracer: trace.NewTracerProvider(trace.WithSpanProcessor(spans))})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Endpoints: specs("10.0.0.1:80")})
	conn := dialPicker(t, address)
	const (
		id     = "0af7651916cd43dd8448eb211c80319c"
		caller = "00-" + id + "-00000000000000aa-01"
		client = "00-" + id + "-00000000000000bb-01"
	)
	for _, tt := range []struct{ call, header, parent string }{
		{caller, client, "00000000000000aa"},
		{"", client, "00000000000000bb"},
		{strings.TrimSuffix(caller, "1") + "0", client, ""},
		{"", "", ""},
	} {
		spans.Reset()
		pairs := []string{"x-penstock-pool", "ns/pool"}
		if tt.call != "" {
			pairs = append(pairs, "traceparent", tt.call)
		}
		stream, cancel := call(t, conn, pairs...)
		exchange(t, stream, headerMessage(nil, "traceparent", tt.header))
		cancel()
		ended := spans.Ended()
		if tt.parent == "" {
			if len(ended) != 0 {
				t.Errorf("%+v: a span without a sampled parent", tt)
			}
			continue
		}
		if len(ended) != 1 || ended[0].Parent().SpanID().String() != tt.parent || ended[0].Name() != "pick" {
			t.Fatalf("%+v: %v", tt, ended)
		}
		got := map[attribute.Key]string{}
		for _, a := range ended[0].Attributes() {
			got[a.Key] = a.Value.String()
		}
		if got["penstock.pool"] != "ns/pool" || got["penstock.strategy"] != "round-robin" || got["penstock.candidates"] != "1" ||
			got["penstock.chosen"] != "10.0.0.1:80" || got["penstock.reason"] != "picked" {
			t.Errorf("attributes %v", got)
		}
	}
}

func TestMetrics_CountPicksAndDropRemovedPools(t *testing.T) {
	registry := prometheus.NewRegistry()
	p := runPicker(t, Config{Registerer: registry})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/a"), Strategy: "random", Endpoints: specs("10.0.0.1:80")}, Pool{ID: poolID("ns/empty")}, Pool{ID: poolID("ns/paged"), Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")})
	p.pool("ns/paged").snapshot.Endpoints[0].BeginScrape().Succeed(endpoint.Reading{Problem: "no series"}, time.Now())
	conn := dialPicker(t, address)
	for _, pool := range []string{"ns/a", "ns/a", "ns/empty", ""} {
		stream, _ := call(t, conn, "x-penstock-pool", pool)
		exchange(t, stream, headerMessage(nil))
	}
	for series, want := range map[string]float64{
		"penstock_picker_in_flight_requests ns/a":           2,
		"penstock_picker_in_flight_requests ns/empty":       0,
		"penstock_picker_picks_total ns/a picked":           2,
		"penstock_picker_picks_total ns/empty no_endpoints": 1,
		"penstock_picker_unknown_pool_total":                1,
		"penstock_picker_endpoints ns/a stale":              0, // its strategy reads no pages
		"penstock_picker_endpoints ns/a unread":             1,
		"penstock_picker_page_problems ns/a":                0,
		"penstock_picker_endpoints ns/paged unread":         0,
		"penstock_picker_page_problems ns/paged":            1,
	} {
		if got, ok := gathered(t, registry)[series]; !ok || got != want {
			t.Errorf("%s: %v (there: %v), want %v", series, got, ok, want)
		}
	}
	p.Remove(poolID("ns/a"))
	for series := range gathered(t, registry) {
		if strings.Contains(series, " ns/a ") || strings.HasSuffix(series, " ns/a") {
			t.Errorf("%s remains of a removed pool", series)
		}
	}
}

// gathered returns counters, gauges, and how many values histograms have, by name and label values.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestDebugPicks_ShowWhyEndpointWasPicked(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	list := specs("10.0.0.1:80", "10.0.0.2:80")
	list[1].Draining = true
	setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: "least-request", Full: schedule.Full{InFlight: 9}, Endpoints: list})
	stream, _ := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool")
	exchange(t, stream, headerMessage(nil))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("GET", "/debug/picks?pool=ns/pool", nil))
	var page struct{ Picks []Record }
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Picks) != 1 {
		t.Fatalf("%v %s", err, w.Body)
	}
	pick := page.Picks[0]
	if pick.Endpoints != "10.0.0.1:80" || pick.Result != "picked" || pick.Verdicts[0].State.InFlight != 0 || pick.Verdicts[1].Out != "draining" {
		t.Errorf("%+v", pick)
	}
	w = httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("GET", "/debug/picks?pool=unknown", nil))
	if w.Code != 404 {
		t.Errorf("unknown pool: %d", w.Code)
	}
}

func TestPicker_PickAfterAStopNamesWhatHasChanged(t *testing.T) {
	stopped, asked := make(chan struct{}), make(chan struct{})
	p := runPicker(t, Config{Stops: stops(func(time.Time) time.Duration {
		close(asked)
		<-stopped
		return time.Millisecond
	})})
	setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true, Endpoints: specs("10.0.0.1:80")})
	go func() {
		<-asked
		setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true, Endpoints: specs("10.0.0.2:80")})
		close(stopped)
	}()
	if got := p.Pick(t.Context(), longPrompt(10)).Endpoints.String(); got != "10.0.0.2:80" {
		t.Errorf("the pick names %q, which has left while the process was stopped", got)
	}
}
