package endpoint

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type counted struct{ reads, broken atomic.Int64 }

func (c *counted) RoundTrip(*http.Request) (*http.Response, error) {
	c.reads.Add(1)
	w := httptest.NewRecorder()
	if c.broken.Load() > 0 {
		w.WriteHeader(500)
	}
	_, _ = w.WriteString("vllm:num_requests_waiting 9\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n")
	return w.Result(), nil
}

// process is one of several processes that read the same pages.
type process struct {
	*counted
	registry *Registry
	pool     *Snapshot
	stop     func()
	gone     atomic.Bool
}

// processes starts processes that end with the test. A process's reading reaches the others after
// 30 ms.
func processes(t *testing.T, n int, specs []Spec) (all []*process) {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); running.Wait() })
	for range n {
		p := &process{counted: &counted{}}
		read := func(addr netip.AddrPort, page uint64, r Reading) {
			if p.gone.Load() {
				return
			}
			running.Go(func() {
				time.Sleep(30 * time.Millisecond)
				for _, other := range all {
					if other == p {
						continue
					}
					if err := other.registry.Receive(addr, page, r, time.Now()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		p.registry = NewRegistry(Config{Transport: p.counted, Jitter: rand.Float64, Read: read})
		p.registry.Share(n)
		p.pool = p.registry.Snapshot(Metrics{}, nil, specs)
		ctx, stop := context.WithCancel(ctx)
		p.stop = func() { p.gone.Store(true); stop() }
		running.Go(func() { _ = p.registry.Run(ctx) })
		all = append(all, p)
	}
	return all
}

// bubble runs a test in a synctest bubble, with the process's start in its virtual time.
func bubble(t *testing.T, run func(t *testing.T)) {
	start := processStart
	defer func() { processStart = start }()
	synctest.Test(t, func(t *testing.T) {
		processStart = time.Now().Add(-time.Hour)
		run(t)
	})
}

func TestScrape_ProcessesReadAPageOnceForAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := processes(t, 3, []Spec{{Addr: netip.MustParseAddrPort("192.0.2.1:8000")}})
		use := func(seconds int) {
			for range 2 * seconds {
				time.Sleep(500 * time.Millisecond)
				for _, p := range all {
					p.pool.MarkUsed()
				}
			}
		}
		reads := func() (n int64) {
			for _, p := range all {
				n += p.reads.Load()
			}
			return n
		}
		use(2)
		before := reads()
		use(60)
		if n := reads() - before; n < 54 || n > 75 {
			t.Errorf("in a minute, three processes have read the page %d times; want once a second", n)
		}
		reader := 0
		for i, p := range all {
			if p.reads.Load() > all[reader].reads.Load() {
				reader = i
			}
			if s := p.pool.Endpoints[0].State(); !s.Fresh || s.Queue != 9 {
				t.Errorf("process %d: got %+v, want a fresh state with a queue of 9", i, s)
			}
		}
		all[reader].stop()
		all = append(all[:reader:reader], all[reader+1:]...)
		use(2)
		before = reads()
		for range 20 {
			use(1)
			for i, p := range all {
				if !p.pool.Endpoints[0].State().Fresh {
					t.Errorf("process %d: the page is stale after the one that read it is gone", i)
				}
			}
		}
		if n := reads() - before; n < 18 || n > 27 {
			t.Errorf("without the one that read it, the page was read %d times in 20 s, want 18 to 27", n)
		}
	})
}

func TestScrape_ProcessThatCannotReadAPageGoesByAnothers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := processes(t, 2, []Spec{{Addr: netip.MustParseAddrPort("192.0.2.1:8000")}})
		all[0].broken.Store(1)
		for range 60 {
			time.Sleep(500 * time.Millisecond)
			all[0].pool.MarkUsed()
			all[1].pool.MarkUsed()
		}
		if e := &all[0].pool.Endpoints[0]; !e.State().Fresh || e.Problem() != "" {
			t.Errorf("got %+v, problem %q; want fresh and none", e.State(), e.Problem())
		}
	})
}

func TestScrape_BudgetIsThatOfAllProcesses(t *testing.T) {
	one, two := newBudget(1000), newBudget(1000)
	two.share.Store(2)
	now := time.Now()
	for range 1000 {
		one.take(now)
		two.take(now)
	}
	if a, b := one.take(now)+scrapeBurst*time.Millisecond, two.take(now)+2*scrapeBurst*time.Millisecond; b != 2*a {
		t.Errorf("the 1,000th page waits %v, and %v with another process, want %v", a, b, 2*a)
	}
}

func TestScrape_WrongReadingsOfPeersAreDropped(t *testing.T) {
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	addr, now := netip.MustParseAddrPort("192.0.2.1:8000"), time.Now()
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: addr}})
	page := s.Endpoints[0].source.number
	for _, bad := range []Reading{
		{Queue: -1}, {Running: math.NaN()}, {KV: math.Inf(1)}, {KV: 45}, {CacheTokens: -1},
		{CacheTokens: maxTokens + 1}, {Adapters: &Adapters{Max: -1}},
		{Adapters: &Adapters{Running: []string{""}}},
		{Adapters: &Adapters{Running: []string{strings.Repeat("x", pageBuffer+1)}}},
		{Adapters: &Adapters{Waiting: strings.Split(strings.Repeat("x ", maxAdapters+1), " ")}},
	} {
		if err := r.Receive(addr, page, bad, now); err == nil {
			t.Errorf("%+v is taken, want an error", bad)
		}
	}
	for name, err := range map[string]error{
		"another page":    r.Receive(addr, page+1, Reading{Queue: 3}, now),
		"another address": r.Receive(netip.MustParseAddrPort("192.0.2.2:8000"), page, Reading{Queue: 3}, now),
	} {
		if err != nil || s.Endpoints[0].source.sample.Load() != nil {
			t.Errorf("%s: got %v, %+v; want no error, and no sample taken", name, err, s.Endpoints[0].State())
		}
	}
	if err := r.Receive(addr, page, Reading{Queue: 3, Adapters: &Adapters{Running: []string{"sql"}, Max: 2}},
		now); err != nil || s.Endpoints[0].State().Queue != 3 {
		t.Errorf("%v, %+v, want Queue 3", err, s.Endpoints[0].State())
	}
	if a, b := (&Metrics{Engine: SGLang}).number(), (&Metrics{}).number(); a == b || b != (&Metrics{}).number() {
		t.Error("pages of different engines have one number")
	}
}
