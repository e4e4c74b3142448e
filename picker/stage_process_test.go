package picker

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/mem"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type processorOf struct {
	Processor
	mu     sync.Mutex
	answer string
	status int
	sent   struct {
		Body    map[string]any    `json:"request_body"`
		Headers map[string]string `json:"headers"`
	}
	trace string
	calls int
}

func (s *processorOf) set(answer string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.status = answer, status
}

func startProcessor(t *testing.T) *processorOf {
	t.Helper()
	s := &processorOf{status: http.StatusOK, answer: "{}"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent.Body, s.sent.Headers = nil, nil
		if err := json.Unmarshal(text, &s.sent); err != nil || r.URL.Path != "/process" {
			t.Errorf(`%s %s: %v, want "/process"`, r.URL.Path, text, err)
		}
		s.trace = r.Header.Get("traceparent")
		s.calls++
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.answer)
	}))
	t.Cleanup(server.Close)
	s.Processor = Processor{Host: "processor.ns.svc:8080",
		Addresses: []dial.Address{
			{AddrPort: netip.MustParseAddrPort(server.Listener.Addr().String()), Cleartext: true},
		}}
	return s
}

func bodied(text string) *extproc.Request {
	s := request.New(request.Completions)
	defer s.Release()
	s.Write([]byte(text))
	f := s.Facts()
	f.Chain, f.Exact.Ends = nil, nil
	return &extproc.Request{Pool: "ns/pool", Gateway: "ns/gw", Headers: &extproc.Message{}, Facts: f,
		Body: mem.BufferSlice{mem.SliceBuffer(text)}}
}

func TestProcessor_AnswerDecidesTheRequest(t *testing.T) {
	s := startProcessor(t)
	registry := prometheus.NewRegistry()
	p := runPicker(t, Config{Registerer: registry})
	endpoints := specs("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80", "10.0.0.5:81")
	endpoints[1].Pod, endpoints[2].Pod, endpoints[3].Draining = "worker-2", "servers/gpu.example.com", true
	pool := Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: endpoints, Fallbacks: 1, Processor: &s.Processor,
		Body: BodyBuffered}
	setPools(t, p, pool)
	const yes, no, silent = `{"route":true,"prompt":"a"}`, `{"route":false,"prompt":"a"}`, `{"prompt":"a"}`
	for _, tt := range []struct {
		body, answer  string
		status        int
		first, reason string // first endpoint, "" for any; why the strategy chooses it, "" if it does not
		key, ids      string
		byDefault     bool
	}{
		{yes, `{"worker_address":"10.0.0.3:80","token_key":"k1"}`, 200, "10.0.0.3:80", "", "k1", "", false},
		{yes, `{"worker_address":"worker-2:80","token_value":"[1, 2]"}`, 200, "10.0.0.2:80", "", "", "[1, 2]", false},
		{yes, `{"worker_address":"GPU.example.com:80"}`, 200, "10.0.0.3:80", "", "", "", false},
		{yes, `{"worker_address":"[::ffff:10.0.0.1]:80"}`, 200, "10.0.0.1:80", "", "", "", false},
		{yes, `{"worker_address":"worker-2:81","token_key":"k2"}`, 200, "", "unknown_worker", "k2", "", false},
		{yes, `{"worker_address":"8.8.8.8:80"}`, 200, "", "unknown_worker", "", "", false},
		{yes, `{"worker_address":"servers/gpu.example.com:80"}`, 200, "", "unknown_worker", "", "", false},
		{yes, `{"worker_address":":80"}`, 200, "", "unknown_worker", "", "", false},
		{yes, `{"worker_address":"10.0.0.4:80"}`, 200, "", "busy_worker", "", "", false},
		{yes, `{"token_key":"k3"}`, 200, "", "no_worker", "k3", "", false},
		{yes, `{"token_key":"k\n3"}`, 200, "", "no_answer", "", "", false},
		{yes, `{"worker_address":"10.0.0.1:80"}`, 422, "", "no_answer", "", "", false},
		{no, `{"worker_address":"10.0.0.4:80","token_key":"k4"}`, 200, "", "", "k4", "", true},
		{silent, `{"worker_address":"10.0.0.4:80","token_key":"k5"}`, 200, "", "", "k5", "", false},
		{silent, `{"worker_address":"10.0.0.5:81"}`, 200, "10.0.0.5:81", "", "", "", true},
	} {
		s.set(tt.answer, tt.status)
		changed := pool
		processor := s.Processor
		processor.Route = tt.byDefault
		changed.Processor = &processor
		setPools(t, p, changed)
		reason := func() float64 {
			if tt.reason == "" {
				return 0
			}
			var m dto.Metric
			_ = p.metrics.processed.fallbacks.WithLabelValues("ns/pool", tt.reason).Write(&m)
			return m.Counter.GetValue()
		}
		before := reason()
		a := p.Pick(t.Context(), bodied(tt.body))
		if len(a.Endpoints) != leastTries || a.Endpoints[0] == a.Endpoints[1] ||
			tt.first != "" && a.Endpoints[0] != tt.first || string(a.TokenIDs) != tt.ids ||
			named(a)["x-req-tokens-key"] != tt.key || a.Lease.Number == 0 {
			t.Errorf("%s, %s: got %s, tokens %s, %v; want %d tries, first %q, tokens %s, key %q",
				tt.body, tt.answer, a.Endpoints, a.TokenIDs, named(a), leastTries, tt.first, tt.ids, tt.key)
		}
		if tt.reason != "" && reason() != before+1 {
			t.Errorf("%s: %s is not counted", tt.answer, tt.reason)
		}
		route, given := s.sent.Body["route"]
		if want := tt.body == yes || tt.body == silent && tt.byDefault; given != (tt.body != silent || tt.byDefault) ||
			given && route != want {
			t.Errorf("%s: the processor gets route %v (given: %t), want %t", tt.body, route, given, want)
		}
		a.Track.End()
	}
	// If "route" is not a boolean, the pool's default applies.
	for _, text := range []string{`{"route":null,"prompt":"a"}`, `{"route":"fallback","prompt":"a"}`,
		`{"route":1,"prompt":"a"}`} {
		if a := p.Pick(t.Context(), bodied(text)); a.Endpoints[0] != "10.0.0.5:81" || s.sent.Body["route"] != true {
			t.Errorf("%s: got %s, the processor gets %v; want 10.0.0.5:81 first, and route true",
				text, a.Endpoints, s.sent.Body)
		}
	}
	for _, text := range []string{`{"prompt":`, `{"a":1},"headers":{"x-request-id":"forged"},"b":{}`, `[1]`} {
		before := s.calls
		if a := p.Pick(t.Context(), bodied(text)); len(a.Endpoints) == 0 || s.calls != before {
			t.Errorf("%s: got %s, %d calls; want endpoints, and none", text, a.Endpoints, s.calls-before)
		}
	}
}

func TestProcessor_WorkerOutsideTheSubsetIsNotUsed(t *testing.T) {
	s := startProcessor(t)
	s.Route = true
	p := runPicker(t, Config{})
	endpoints := specs("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")
	for i, tier := range []string{"gold", "gold", "free"} {
		endpoints[i].Labels, endpoints[i].Pod = map[string]string{"tier": tier}, "worker-"+tier
	}
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: endpoints, Fallbacks: 2, Processor: &s.Processor,
			Body: BodyBuffered})
	for worker, reason := range map[string]string{
		"10.0.0.1:80": "busy_worker", "worker-gold:80": "busy_worker", "10.0.0.3:80": "", "worker-free:80": "",
	} {
		s.set(fmt.Sprintf(`{"worker_address":%q}`, worker), http.StatusOK)
		r := bodied(`{"prompt":"a"}`)
		r.Subset = "tier=free"
		if a := p.Pick(t.Context(), r); a.Endpoints.String() != "10.0.0.3:80" {
			t.Errorf(`%s: %s %s, want "10.0.0.3:80"`, worker, a.Endpoints, a.Reason)
		} else {
			a.Track.End()
		}
		if picks := p.Picks(Picks{Last: 1}); len(picks) != 1 || picks[0].Processor == nil ||
			picks[0].Processor.Own != reason {
			t.Errorf("%s: recorded as %+v, want %s", worker, picks, reason)
		}
	}
}

// The picker compares the processor's tokens with the servers' cache reports, and sends them to
// Dynamo's frontend.
func TestProcessor_TokensAreThoseOfThePrompt(t *testing.T) {
	s := startProcessor(t)
	p := runPicker(t, Config{})
	var publishers [2]publisher
	var port uint16
	for i := range publishers {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", i+1, port))
		if err != nil {
			t.Fatal(err)
		}
		port = netip.MustParseAddrPort(listener.Addr().String()).Port()
		go func() { _ = publishers[i].Serve(t.Context(), listener) }()
	}
	servers := specs("127.0.0.1:8000", "127.0.0.2:8000")
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Endpoints: servers, Metrics: endpoint.Metrics{Off: true},
			KVEvents: &KVEvents{Port: port}, Processor: &s.Processor, Body: BodyBuffered,
			Strategy: schedule.Plugins,
			Plugins:  parsed(t, "plugins: [{type: prefix-cache-scorer}, {type: dynamo-headers}]")})
	tokens, hashes := make([]uint32, 1024), make([]any, 1024/16)
	for i := range tokens {
		tokens[i], hashes[i/16] = uint32(i*31), uint64(1000+i/16)
	}
	list, _ := json.Marshal(tokens)
	s.set(fmt.Sprintf(`{"token_value":%q}`, list), http.StatusOK)
	poll.Until(t, "the picker subscribes", func() bool {
		return publishers[0].Subscribers()+publishers[1].Subscribers() == 2
	})
	for i := range publishers {
		publishers[i].publish(t, []any{"AllBlocksCleared"})
	}
	for _, holder := range []int{1, 0} {
		publishers[holder].publish(t, []any{"BlockStored", hashes, nil, tokens, 16})
		poll.Until(t, "requests go where the processor's tokens are cached", func() bool {
			for range 3 {
				a := p.Pick(t.Context(), bodied(`{"model":"base","prompt":"a"}`))
				to := a.Endpoints[0]
				if a.Track.End(); string(a.TokenIDs) != string(list) || string(a.TokenData) != string(list) {
					t.Fatalf("the body gets token_ids %.20s and token_data %.20s, want %.20s in both",
						a.TokenIDs, a.TokenData, list)
				}
				if p.leases.Find(a.Lease.String()).Release(); to != servers[holder].Addr.String() {
					return false
				}
			}
			return true
		})
		publishers[holder].publish(t, []any{"BlockRemoved", hashes})
	}
}

func TestProcessor_ReceivesListedHeadersAndNoCredentials(t *testing.T) {
	s := startProcessor(t)
	p := runPicker(t, Config{})
	s.Headers = []string{"x-tenant", "authorization", "cookie", ":path"}
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Default: true, Endpoints: specs("10.0.0.1:80"), Processor: &s.Processor,
			Body: BodyBuffered})
	_, address := servePicker(t, p)
	stream, _ := call(t, dialPicker(t, address))
	headers := headerMessage(nil, ":path", "/v1/completions", "x-request-id", "r1", "x-tenant", "t1", "x-other", "o",
		"authorization", "secret", "cookie", "c=1",
		"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	headers.GetRequestHeaders().EndOfStream = false
	exchange(t, stream, headers)
	exchange(t, stream, &extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: []byte(`{"prompt":"a","n":12345678901234567890}`),
				EndOfStream: true},
		},
	})
	if got := fmt.Sprint(s.sent.Headers); got != "map[x-request-id:r1 x-tenant:t1]" {
		t.Errorf(`the processor gets %s, want "map[x-request-id:r1 x-tenant:t1]"`, got)
	}
	if s.trace != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" {
		t.Errorf("its trace context is %q, want %q", s.trace, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	}
}

func TestProcessor_HangingOneCostsItsTimeAndThenNothing(t *testing.T) {
	stop := make(chan struct{})
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1); <-stop }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stop) })
	p := runPicker(t, Config{})
	processor := &Processor{Host: "p:1", Timeout: 100 * time.Millisecond,
		Addresses: []dial.Address{
			{AddrPort: netip.MustParseAddrPort(server.Listener.Addr().String()), Cleartext: true},
		}}
	pool := Pool{ID: poolID("ns/pool"), Endpoints: specs("10.0.0.1:80"), Processor: processor, Body: BodyBuffered}
	setPools(t, p, pool)
	for range 5 {
		if a := p.Pick(t.Context(), bodied(`{"prompt":"a"}`)); a.Endpoints.String() != "10.0.0.1:80" {
			t.Errorf("got %+v, want 10.0.0.1:80", a)
		}
	}
	pool.Endpoints = append(pool.Endpoints, endpoint.Spec{Addr: netip.MustParseAddrPort("10.0.0.2:80")})
	setPools(t, p, pool) // a new configuration keeps the breaker open
	if n := p.pool("ns/pool"); !n.processor.Open() {
		t.Error("the breaker is closed")
	}
	asked := calls.Load()
	if a := p.Pick(t.Context(), bodied(`{"prompt":"a"}`)); len(a.Endpoints) == 0 || calls.Load() > asked {
		t.Errorf("got %s after %d calls, %d before; want endpoints without a call", a.Endpoints, calls.Load(), asked)
	}
	var m dto.Metric
	if _ = p.metrics.seconds.WithLabelValues("ns/pool").(prometheus.Histogram).
		Write(&m); m.Histogram.GetSampleCount() != 6 || m.Histogram.GetSampleSum() > 5*processor.Timeout.Seconds() {
		t.Errorf("%d picks take %v s, want 6 in less than the processor's time of 5",
			m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum())
	}
}
