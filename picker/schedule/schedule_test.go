package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// load is the state of a test's endpoint.
type load struct {
	queue, running int
	kv             float64
	inFlight       int // this process's requests, beyond those on the page
	stale          bool
	draining       bool
}

// endpoints makes a list in the given order: addresses ascend.
func endpoints(t *testing.T, loads ...load) []endpoint.Endpoint {
	t.Helper()
	registry := endpoint.NewRegistry(endpoint.Config{Slow: time.Hour, Jitter: func() float64 { return 0.5 },
		Transport: pages(func(host string) *load {
			var i int
			if _, err := fmt.Sscanf(host, "10.0.0.%d:80", &i); err != nil || loads[i].stale {
				return nil
			}
			return &loads[i]
		})})
	var specs []endpoint.Spec
	for i, l := range loads {
		specs = append(specs, endpoint.Spec{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80), Draining: l.draining})
	}
	s := registry.Snapshot(endpoint.Metrics{}, nil, specs)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- registry.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	s.Refresh(10 * time.Second)
	leases := endpoint.NewLeases("test", time.Hour)
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.State().Fresh == loads[i].stale {
			t.Fatalf("%s: %+v", e.Text, e.State())
		}
		for range loads[i].inFlight {
			leases.Open(e, endpoint.Holder{}, 0)
		}
	}
	return s.Endpoints
}

// pages serves metrics pages without a network.
type pages func(host string) *load

func (p pages) RoundTrip(r *http.Request) (*http.Response, error) {
	l := p(r.URL.Host)
	if l == nil {
		return nil, fmt.Errorf("%s does not answer", r.URL.Host)
	}
	w := httptest.NewRecorder()
	fmt.Fprintf(w, "vllm:num_requests_waiting %d\nvllm:num_requests_running %d\nvllm:kv_cache_usage_perc %g\n", l.queue, l.running, l.kv)
	return w.Result(), nil
}

func strategy(t *testing.T, o Options) *Strategy {
	t.Helper()
	o.Random = rand.New(rand.NewPCG(1, 2)).IntN
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ranked returns the last numbers of the addresses chosen.
func ranked(s *Strategy, list []endpoint.Endpoint, n int) []byte {
	var out []byte
	for _, c := range s.Rank(&Request{}, time.Now(), list, nil, n, &Scratch{}) {
		out = append(out, c.Endpoint.Addr.Addr().As4()[3])
	}
	return out
}

func TestStrategy_LoadPrefersLessBusyEndpoint(t *testing.T) {
	for _, tt := range []struct {
		name  string
		loads []load
		o     Options
		want  string
	}{
		{"queue", []load{{queue: 5}, {queue: 1}, {queue: 9}}, Options{}, "[1 0 2]"},
		{"KV cache", []load{{kv: .9}, {kv: .2}, {kv: .5}}, Options{}, "[1 2 0]"},
		{"running requests of other gateways", []load{{running: 4}, {running: 1}}, Options{}, "[1 0]"},
		{"requests in flight that no scrape shows", []load{{inFlight: 3}, {inFlight: 1}}, Options{}, "[1 0]"},
		{"weights decide", []load{{queue: 1, kv: .1}, {queue: 0, kv: .9}}, Options{Weights: Weights{KVCache: 1}}, "[0 1]"},
		{"a queued request counts twice as much as one in flight", []load{{queue: 2}, {inFlight: 2}}, Options{}, "[1 0]"},
		{"stale ranks after fresh with the same load", []load{{stale: true}, {}}, Options{}, "[1 0]"},
		{"stale ranks after the busiest fresh one", []load{{stale: true}, {queue: 3, kv: .3}, {queue: 9, kv: .9}}, Options{}, "[1 2 0]"},
		{"among stale ones requests in flight decide", []load{{stale: true, inFlight: 2}, {stale: true, inFlight: 1}}, Options{}, "[1 0]"},
		{"draining is not chosen", []load{{draining: true}, {queue: 50}}, Options{}, "[1]"},
		{"full by queue", []load{{queue: 5}, {queue: 4, kv: .9}}, Options{Full: Full{Queue: 5}}, "[1]"},
		{"full by KV cache", []load{{kv: .8}, {kv: .79, queue: 9}}, Options{Full: Full{KVCachePercent: 80}}, "[1]"},
		{"full by requests in flight", []load{{inFlight: 2}, {inFlight: 1, queue: 9}}, Options{Full: Full{InFlight: 2}}, "[1]"},
		{"a stale queue makes no endpoint full", []load{{stale: true}}, Options{Full: Full{Queue: 1}}, "[0]"},
		{"requests sent since the scrape wait in a non-empty queue", []load{{queue: 1, inFlight: 2}, {queue: 2}}, Options{Full: Full{Queue: 3}}, "[1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(ranked(strategy(t, tt.o), endpoints(t, tt.loads...), 9)); got != tt.want {
				t.Errorf("order %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLeastRequest_IgnoresMetrics(t *testing.T) {
	list := endpoints(t, load{inFlight: 2}, load{queue: 9, kv: 1})
	if got := ranked(strategy(t, Options{Name: "least-request"}), list, 1); got[0] != 1 {
		t.Errorf("%v", got)
	}
}

func TestRoundRobin_PreviewTakesNoTurn(t *testing.T) {
	list := endpoints(t, load{}, load{draining: true}, load{}, load{})
	s := strategy(t, Options{Name: "round-robin"})
	for i, want := range []string{"[0 2]", "[2 3]", "[3 0]", "[0 2]"} {
		preview := fmt.Sprint(s.Preview(&Request{}, time.Now(), list, nil, 2, &Scratch{})[0].Endpoint.Addr.Addr().As4()[3])
		got := ranked(s, list, 2)
		if fmt.Sprint(got) != want || preview != fmt.Sprint(got[0]) {
			t.Errorf("turn %d: %v (preview %s), want %s", i, got, preview, want)
		}
	}
}

func TestStrategy_EqualEndpointsAreChosenEquallyOften(t *testing.T) {
	list := endpoints(t, load{}, load{}, load{}, load{})
	for _, name := range []string{"random", "load", "least-request"} {
		s := strategy(t, Options{Name: name})
		counts := map[byte]int{}
		for range 4000 {
			counts[ranked(s, list, 1)[0]]++
		}
		for i, n := range counts {
			if n < 850 || n > 1150 {
				t.Errorf("%s: server %d was chosen %d times of 4000", name, i, n)
			}
		}
	}
}

func TestStrategy_DescribeShowsFiltersAndCosts(t *testing.T) {
	list := endpoints(t, load{queue: 4, kv: .5}, load{queue: 2}, load{draining: true}, load{queue: 9})
	s := strategy(t, Options{Full: Full{Queue: 9}})
	v := s.Describe(&Request{}, time.Now(), list, func(e *endpoint.Endpoint) bool { return true })
	if v[2].Out != "draining" || v[3].Out != "full" || v[0].Costs["queue"] != 1 || v[1].Costs["queue"] != 0.5 || v[0].Costs["kv-cache"] != 0.5 {
		t.Errorf("%+v", v)
	}
	if v := s.Describe(&Request{}, time.Now(), list, func(e *endpoint.Endpoint) bool { return e == &list[1] }); v[0].Out != "subset" || v[1].Out != "" {
		t.Errorf("%+v", v)
	}
}

func TestStrategy_UnknownNameListsValidNames(t *testing.T) {
	_, err := New(Options{Name: "best"})
	if err == nil || err.Error() != `unknown strategy "best": use one of [least-request load random round-robin]` {
		t.Error(err)
	}
}

func BenchmarkRank(b *testing.B) {
	for _, n := range []int{4, 100} {
		registry := endpoint.NewRegistry(endpoint.Config{Jitter: rand.Float64})
		var specs []endpoint.Spec
		for i := range n {
			specs = append(specs, endpoint.Spec{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)})
		}
		list := registry.Snapshot(endpoint.Metrics{}, nil, specs).Endpoints
		s, err := New(Options{Random: rand.IntN})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%d endpoints", n), func(b *testing.B) {
			b.ReportAllocs()
			var scratch Scratch
			for b.Loop() {
				s.Rank(&Request{}, time.Now(), list, nil, 3, &scratch)
			}
		})
	}
}
