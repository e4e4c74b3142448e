package picker

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func specs(texts ...string) []endpoint.Spec {
	var out []endpoint.Spec
	for _, text := range texts {
		out = append(out, endpoint.Spec{Addr: netip.MustParseAddrPort(text)})
	}
	return out
}

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

func call(t testing.TB, conn *grpc.ClientConn, pairs ...string) (extprocv3.ExternalProcessor_ProcessClient,
	context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), pairs...), 20*time.Second)
	t.Cleanup(cancel)
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream, cancel
}

func headerMessage(hint any, pairs ...string) *extprocv3.ProcessingRequest {
	headers := &extprocv3.HttpHeaders{EndOfStream: true, Headers: &corev3.HeaderMap{}}
	for i := 0; i < len(pairs); i += 2 {
		headers.Headers.Headers = append(headers.Headers.Headers,
			&corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	m := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers}}
	if hint != nil {
		value, _ := structpb.NewStruct(map[string]any{"x-gateway-destination-endpoint-subset": hint})
		m.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb.subset_hint": value}}
	}
	return m
}

func exchange(t testing.TB, stream extprocv3.ExternalProcessor_ProcessClient,
	m *extprocv3.ProcessingRequest) *extprocv3.ProcessingResponse {
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
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "random",
			Endpoints: specs("10.0.0.1:80", "10.0.0.1:81", "10.0.0.2:80", "[fd00::1]:80")})
	conn := dialPicker(t, address)
	for _, tt := range []struct {
		hint any
		want []string // nil means 503
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

func TestEndpointPicker_ExplainsWhyAnEndpointIsNotFresh(t *testing.T) {
	status := func(code int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	p := runPicker(t, Config{})
	setPools(t, p, Pool{ID: poolID("ns/loaded"), Endpoints: specs(status(404))},
		Pool{ID: poolID("ns/turns"), Strategy: "round-robin", Endpoints: specs("10.0.0.1:80")})
	for pool, want := range map[string]string{"ns/loaded": "/metrics: status 404",
		"ns/turns": "its metrics page is not read: the pool's strategy needs none"} {
		poll.Until(t, pool, func() bool {
			v := p.Explain(pool, nil).Verdicts[0]
			return !v.State.Fresh && strings.Contains(v.Problem, want)
		})
	}
}

func TestEndpointPicker_InvalidPoolKeepsLastGood(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p, Pool{ID: poolID("ns/a"), Strategy: "round-robin", Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")},
		Pool{ID: poolID("ns/gone"), Endpoints: specs("10.0.0.3:80")})
	if e := p.Explain("ns/a", nil); e.Endpoints != "10.0.0.1:80" {
		t.Errorf(`%+v, want Endpoints "10.0.0.1:80"`, e)
	}
	err := p.SetPools([]Pool{{ID: poolID("ns/a"), Strategy: "nonsense"},
		{ID: poolID("ns/b"), Endpoints: specs("10.0.0.4:80")}, {ID: poolID("ns/b")}})
	if err == nil || !strings.Contains(err.Error(), `pool ns/a: unknown strategy "nonsense"`) ||
		!strings.Contains(err.Error(), "pool ns/b is given twice") {
		t.Errorf("error %v, want one that names the strategy of ns/a and that ns/b is given twice", err)
	}
	if e := p.Explain("ns/a", nil); e.Endpoints != "10.0.0.1:80" || e.Strategy != "round-robin" {
		t.Errorf(`the last good configuration is lost: %+v, want Endpoints "10.0.0.1:80" and Strategy "round-robin"`, e)
	}
	if p.Explain("ns/gone", nil).Known || !p.Explain("ns/b", nil).Known {
		t.Errorf("pools: %v, want ns/b, and not ns/gone", p.Pools())
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
	watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{
		Service: "envoy.service.ext_proc.v3.ExternalProcessor",
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.Status.String() != "NOT_SERVING" {
		t.Errorf("got %v %v, want NOT_SERVING", r, err)
	}
	setPools(t, p)
	if r, err := watch.Recv(); err != nil || r.Status.String() != "SERVING" {
		t.Errorf("got %v %v, want SERVING", r, err)
	}
	for _, name := range []string{"", "readiness", "inference-extension"} {
		if s := status(name); s != "SERVING" {
			t.Errorf(`%q: %s, want "SERVING"`, name, s)
		}
	}
}

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
