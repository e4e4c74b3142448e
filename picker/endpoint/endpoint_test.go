package endpoint

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/penstock-project/penstock/picker/upstream"
	"github.com/penstock-project/penstock/picker/upstream/upstreamtest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type modelServer struct {
	*httptest.Server
	queue   atomic.Int64
	broken  atomic.Bool
	scrapes atomic.Int64
}

func startServer(t *testing.T) *modelServer {
	t.Helper()
	s := &modelServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.scrapes.Add(1)
		if s.broken.Load() {
			w.WriteHeader(500)
			return
		}
		fmt.Fprintf(w, "vllm:num_requests_waiting %d\n", s.queue.Load())
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *modelServer) addr() netip.AddrPort {
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

func run(t *testing.T, c Config) *Registry {
	t.Helper()
	c.Jitter = func() float64 { return 0.5 }
	r := NewRegistry(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestScrape_FailureMakesEndpointStaleNotIdle(t *testing.T) {
	server := startServer(t)
	server.queue.Store(9)
	server.broken.Store(true)
	r := run(t, Config{Fast: time.Millisecond, Slow: time.Millisecond, Timeout: time.Second})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: server.addr()}})
	e := &s.Endpoints[0]
	s.MarkUsed()
	poll.Until(t, "a failed scrape", func() bool { return r.ScrapeFailures() > 0 })
	if e.State().Fresh {
		t.Error("fresh before the first successful scrape")
	}
	server.broken.Store(false)
	poll.Until(t, "a scrape", func() bool { return e.State().Fresh && e.State().Queue == 9 })
	server.broken.Store(true)
	poll.Until(t, "the endpoint to be stale", func() bool { return !e.State().Fresh })
	if e.State().Queue != 9 || r.ScrapeFailures() < 3 {
		t.Errorf("%+v after %d failures, want Queue 9 and at least 3", e.State(), r.ScrapeFailures())
	}
	server.broken.Store(false)
	poll.Until(t, "the endpoint to recover", func() bool { return e.State().Fresh })
}

func TestScrape_StalenessStatesWhyAnEndpointIsNotFresh(t *testing.T) {
	r := NewRegistry(Config{})
	addr := []Spec{{Addr: netip.MustParseAddrPort("10.0.0.1:80")}}
	off, on := r.Snapshot(Metrics{Off: true}, nil, addr), r.Snapshot(Metrics{}, nil, addr)
	e, now := &on.Endpoints[0], time.Now()
	expect := func(e *Endpoint, at time.Time, want string) {
		t.Helper()
		var s State
		if e.ReadState(&s, At(at)); e.Staleness(At(at)) != want || s.Fresh != (want == "") {
			t.Errorf("fresh: %t, because %q, want %q", s.Fresh, e.Staleness(At(at)), want)
		}
	}
	expect(&off.Endpoints[0], now, "its metrics page is not read: the pool's strategy needs none")
	expect(e, now, "its metrics page has not been read yet")
	scrape := e.BeginScrape()
	scrape.Succeed(Reading{Queue: 1}, now)
	expect(e, now, "")
	expect(e, now.Add(time.Hour), "its metrics page was last read 1h0m0s ago")
}

func TestScrape_ProblemIsOneShortLine(t *testing.T) {
	for name, tt := range map[string]struct {
		page, want string
		fresh      bool
	}{
		"a value that is ignored": {
			"HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_running 1\nvllm:num_requests_waiting " +
				"0\nvllm:kv_cache_usage_perc " +
				"0\nvllm:lora_requests_info{max_lora=\"1\"} NaN\n",
			`: ignored: vllm:lora_requests_info has the value "NaN"`, true,
		},
		"a series that is missing": {
			"HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0\n",
			`: the page has no series vllm:num_requests_running, which counts as 0`, true,
		},
		"no waiting requests": {
			"HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0\n",
			`: the page has no series vllm:num_requests_waiting: set `, false,
		},
		"a value that is no load": {
			"HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_running 1\nvllm:num_requests_waiting -Inf\n",
			`vllm:num_requests_waiting has the value "-Inf": a value is`, false,
		},
		"an answer that is not HTTP":  {strings.Repeat("\x1b[31m", 10_000) + "\n\n", "malformed", false},
		"a status that is not for us": {"HTTP/1.0 418 I'm a teapot\r\n\r\n", "status 418", false},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					_, _ = http.ReadRequest(bufio.NewReader(conn))
					_, _ = io.WriteString(conn, tt.page)
					_ = conn.Close()
				}
			}()
			r := run(t, Config{Slow: time.Millisecond, Timeout: time.Minute})
			s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: netip.MustParseAddrPort(listener.Addr().String())}})
			s.Refresh(time.Minute)
			e := &s.Endpoints[0]
			text := e.Problem()
			if e.State().Fresh != tt.fresh || !strings.Contains(text, tt.want) || len(text) > maxProblem ||
				strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("fresh: %t, problem %q, want %q", e.State().Fresh, text, tt.want)
			}
		})
	}
}

// pages serves a page of a size. If stall is set, the page stalls after the header.
func pages(t *testing.T, size int, stall <-chan struct{}) netip.AddrPort {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush() // without a Content-Length
		if stall != nil {
			select {
			case <-stall:
			case <-r.Context().Done():
			}
			return
		}
		head := "vllm:num_requests_waiting 4\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n"
		fmt.Fprint(w, head, strings.Repeat("#", size-len(head)))
	}))
	t.Cleanup(server.Close)
	return netip.MustParseAddrPort(server.Listener.Addr().String())
}

func TestScrape_LargePageIsAnErrorAndNotAShortPage(t *testing.T) {
	for _, tt := range []struct {
		name  string
		size  int
		limit int64
		fails bool
	}{
		{"default", DefaultMaxPage, 0, false},
		{"one byte more", DefaultMaxPage + 1, 0, true},
		{"one byte more, allowed by a PoolPolicy", DefaultMaxPage + 1, 2 << 20, false},
		{"above every limit", LargestMaxPage + 1, 1 << 40, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, Config{Slow: time.Millisecond, Timeout: time.Minute})
			s := r.Snapshot(Metrics{MaxPage: tt.limit}, nil, []Spec{{Addr: pages(t, tt.size, nil)}})
			e := &s.Endpoints[0]
			s.Refresh(time.Minute)
			if state := e.State(); state.Fresh == tt.fails || !tt.fails && state.Queue != 4 ||
				(e.Problem() != "") != tt.fails {
				t.Errorf("got %+v, problem %q; want that the page fails: %t", state, e.Problem(), tt.fails)
			}
			if tt.fails && !strings.Contains(e.Problem(), "picker.metrics.maxPageBytes") {
				t.Errorf("problem %q, want one that names picker.metrics.maxPageBytes", e.Problem())
			}
		})
	}
}

func TestScrape_StalledServersLeaveOthersScraped(t *testing.T) {
	stall := make(chan struct{})
	defer close(stall)
	r := run(t, Config{Fast: time.Millisecond, Slow: time.Millisecond, Timeout: 10 * time.Millisecond, Concurrent: 2})
	var specs []Spec
	for range 8 {
		specs = append(specs, Spec{Addr: pages(t, 0, stall)})
	}
	stalled := r.Snapshot(Metrics{}, nil, specs)
	stalled.MarkUsed()
	poll.Until(t, "failures", func() bool { return r.ScrapeFailures() > 8 })
	server := startServer(t)
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: server.addr()}})
	poll.Until(t, "scrapes of another server", func() bool {
		stalled.MarkUsed()
		s.MarkUsed()
		return server.scrapes.Load() > 5
	})
}

func TestScrape_AddressThatIsNeverAllowedIsNotScraped(t *testing.T) {
	server := startServer(t)
	r := run(t, Config{Slow: time.Millisecond, Never: func(netip.Addr) string { return "a loopback address" }})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: server.addr()}})
	s.Refresh(time.Minute)
	if e := &s.Endpoints[0]; server.scrapes.Load() != 0 ||
		!strings.Contains(e.Problem(), "a loopback address is never read") {
		t.Errorf(`%d scrapes, problem %q, want 0 and a text with "a loopback address is never read"`,
			server.scrapes.Load(), e.Problem())
	}
}

func TestScrape_FollowsPicksOfTheEndpoint(t *testing.T) {
	server, other := startServer(t), startServer(t)
	r := run(t, Config{Fast: time.Microsecond, Slow: time.Hour})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: server.addr()}, {Addr: other.addr()}})
	s.MarkUsed()
	poll.Until(t, "the first pick of the pool has all pages read",
		func() bool { return server.scrapes.Load() == 1 && other.scrapes.Load() == 1 })
	leases, e := NewLeases("me", time.Hour), &s.Endpoints[0]
	if e.Addr != server.addr() {
		e = &s.Endpoints[1]
	}
	for i := range 10 {
		poll.Until(t, "the scrape is over", func() bool { return e.State().Unseen == 0 })
		leases.Open(e, Holder{}, Work{}, 0, time.Now())
		leases.Open(e, Holder{}, Work{}, 0, time.Now())
		poll.Until(t, "a scrape after two picks", func() bool { return server.scrapes.Load() >= int64(i)+2 })
	}
	if n, m := server.scrapes.Load(), other.scrapes.Load(); n != 11 || m != 1 {
		t.Errorf(
			"20 picks have the page read %d times after the first one, want 10; that of an endpoint without "+
				"picks %d times", n-1, m-1)
	}
}

// ReadSoon triggers scrapes while requests wait, because no pick does.
func TestScrape_PagesAreReadSoonWhereRequestsWait(t *testing.T) {
	server := startServer(t)
	r := run(t, Config{Fast: time.Microsecond, Slow: time.Hour})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: server.addr()}})
	s.MarkUsed()
	for i := range int64(5) {
		poll.Until(t, "a scrape", func() bool { return server.scrapes.Load() > i })
		s.ReadSoon()
	}
}

func TestScrape_PageIsReadOverTLS(t *testing.T) {
	server := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "vllm:num_requests_waiting 9")
		}))
	defer server.Close()
	r := run(t, Config{Slow: time.Hour})
	spec := []Spec{{Addr: netip.MustParseAddrPort(server.Listener.Addr().String())}}
	trusting := server.Client().Transport.(*http.Transport).TLSClientConfig
	for name, m := range map[string]Metrics{
		"trusted": {Protocol: upstream.Protocol{TLS: trusting, Key: "a"}}, "cleartext": {},
		"untrusted": {Protocol: upstream.Protocol{TLS: &tls.Config{RootCAs: x509.NewCertPool()}, Key: "b"}},
	} {
		s := r.Snapshot(m, nil, spec)
		s.Refresh(time.Minute)
		e := &s.Endpoints[0]
		if name != "trusted" {
			if e.State().Fresh || e.Problem() == "" {
				t.Errorf("%s: the page is read, want a problem", name)
			}
		} else if got := e.State(); got.Queue != 9 || !got.Fresh {
			t.Errorf("%s: got %+v, %s; want a fresh state with a queue of 9", name, got, e.Problem())
		}
		equal := Metrics{Protocol: upstream.Protocol{TLS: m.Protocol.TLS.Clone(), Key: m.Protocol.Key}}
		if again := r.Snapshot(equal, nil, spec); again.Endpoints[0].source != e.source {
			t.Errorf("%s: an equal page has another scraper, want the same", name)
		}
	}
}

// A metrics page on a separate port is read over HTTP/1.1, even if the endpoint speaks h2c.
func TestScrape_PageOfServerThatSpeaksH2CIsRead(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "vllm:num_requests_waiting 9")
	})
	_, server := upstreamtest.H2C(t, page)
	apart := httptest.NewServer(page)
	defer apart.Close()
	port := netip.MustParseAddrPort(apart.Listener.Addr().String()).Port()
	r := run(t, Config{Slow: time.Hour})
	h2c := upstream.Protocol{HTTP2: true}
	for name, tt := range map[string]struct {
		metrics Metrics
		fresh   bool
	}{
		"h2c":                {Metrics{Protocol: h2c}, true},
		"HTTP/1.1":           {Metrics{}, false},
		"a port of its own":  {Metrics{Protocol: h2c, Port: port}, true},
		"the endpoint's own": {Metrics{Protocol: h2c, Port: server.Port()}, true},
	} {
		s := r.Snapshot(tt.metrics, nil, []Spec{{Addr: server}})
		s.Refresh(time.Minute)
		if got := s.Endpoints[0].State(); got.Fresh != tt.fresh || tt.fresh && got.Queue != 9 {
			t.Errorf("%s: got %+v, %s; want fresh: %t, with a queue of 9",
				name, got, s.Endpoints[0].Problem(), tt.fresh)
		}
	}
}

func TestScrape_IdlePagesAreReadOverASecond(t *testing.T) {
	b, now := newBudget(1000), time.Now()
	late := 0
	for i := range 1000 {
		wait := b.take(now)
		if wait > time.Second {
			t.Fatalf("page %d of 1,000 waits %v, want at most %v", i, wait, time.Second)
		}
		if wait > 500*time.Millisecond {
			late++
		}
	}
	if late < 400 {
		t.Errorf("%d of 1,000 pages wait half a second, want at least 400", late)
	}
	if wait := b.take(now.Add(time.Minute)); wait != 0 {
		t.Errorf("a single page waits %v, want 0", wait)
	}
}

func TestScrape_ManyPagesStayFresh(t *testing.T) {
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	before := r.freshFor.Load()
	r.countScrapers(10_000) // so many that each page is read only every 10 s
	if got := time.Duration(r.freshFor.Load()); got < 30*time.Second {
		t.Errorf("a sample is fresh for %v, want at least %v", got, 30*time.Second)
	}
	if r.countScrapers(-10_000); r.freshFor.Load() != before {
		t.Error("few pages are fresh for longer than before")
	}
}

func TestScrape_IdlePoolIsNotScraped(t *testing.T) {
	server := startServer(t)
	r := run(t,
		Config{Fast: time.Millisecond, Slow: time.Millisecond, IdleAfter: time.Millisecond, Timeout: time.Minute})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: server.addr()}})
	e := &s.Endpoints[0]
	if n := r.scrapers(); n != 0 || !e.State().Idle {
		t.Errorf("%d scrapers before the first pick, want none and an idle endpoint", n)
	}
	server.queue.Store(7)
	s.MarkUsed()
	poll.Until(t, "a scrape after the pick", func() bool { return e.State().Queue == 7 })
	poll.Until(t, "the scraper to end", func() bool { return e.State().Idle })
	if n := r.scrapers(); n != 0 {
		t.Errorf("%d scrapers of an idle pool, want 0", n)
	}
	server.broken.Store(true)
	poll.Until(t, "the next pick's scrapes", func() bool { s.MarkUsed(); return r.ScrapeFailures() > 0 })
	if e.State().Idle {
		t.Error("an endpoint whose scrapes fail is shown as idle")
	}
}

func TestScrape_PagesOfManyPoolsShareTheirDescription(t *testing.T) {
	r := NewRegistry(Config{})
	at := func(m Metrics, addr string) *source {
		return r.Snapshot(m, nil, []Spec{{Addr: netip.MustParseAddrPort(addr)}}).Endpoints[0].source
	}
	a, b := at(Metrics{Engine: SGLang}, "10.0.0.1:80"), at(Metrics{Engine: SGLang}, "10.0.0.2:80")
	if a.names != b.names {
		t.Error("the pages of two pools have a copy of their engine's series each")
	}
	own := at(Metrics{Engine: SGLang, Queue: "waiting"}, "10.0.0.1:80")
	if own == a || own.names == a.names || a.names.queue.name == "waiting" {
		t.Error("a pool's own series is another pool's, too")
	}
}

func TestScrape_RefreshShowsCurrentLoadOfIdlePool(t *testing.T) {
	server := startServer(t)
	r := run(t, Config{Fast: time.Hour, Slow: time.Hour})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: server.addr()}})
	e := &s.Endpoints[0]
	server.queue.Store(5)
	s.Refresh(time.Minute)
	if q := e.State().Queue; q != 5 {
		t.Errorf("queue %v, want the server's current 5", q)
	}
}

func TestScrape_RefreshEndsAtTimeout(t *testing.T) {
	// Run is not called, so no scrape ends.
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: netip.MustParseAddrPort("10.0.0.1:80")}})
	s.Refresh(time.Millisecond)
	r.Release(s)
	s.Refresh(time.Hour) // does not wait for removed servers
}

func (r *Registry) scrapers() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, src := range r.sources {
		if src.scraper.Load() != nil {
			n++
		}
	}
	return n
}

func TestScrape_SharedByPoolsOfOneServer(t *testing.T) {
	server := startServer(t)
	r := run(t, Config{Slow: time.Hour})
	spec := []Spec{{Addr: server.addr()}}
	a, b := r.Snapshot(Metrics{}, nil, spec), r.Snapshot(Metrics{}, nil, append(spec, spec...))
	if len(b.Endpoints) != 1 {
		t.Fatalf("one address twice makes %d endpoints, want 1", len(b.Endpoints))
	}
	a.MarkUsed()
	b.MarkUsed()
	poll.Until(t, "the scrape", func() bool { return b.Endpoints[0].State().Fresh })
	if n := r.scrapers(); n != 1 {
		t.Errorf("%d scrapers, want 1", n)
	}
	lease := NewLeases("me", time.Hour).Open(&a.Endpoints[0], Holder{}, Work{}, 0, time.Now())
	if n := b.Endpoints[0].State().InFlight; n != 1 {
		t.Errorf("the other pool has %d requests in flight, want 1", n)
	}
	r.Release(a)
	if r.Find(server.addr()) == nil {
		t.Error("the server was removed while a pool has it")
	}
	r.Release(b)
	if r.Find(server.addr()) != nil {
		t.Error("the server remains without a pool")
	}
	lease.Release() // must work for a removed endpoint
}

func TestScrape_UnseenRequestsCountUntilNextScrape(t *testing.T) {
	server := startServer(t)
	r := run(t, Config{Slow: time.Hour, Fast: time.Microsecond})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: server.addr()}})
	e, leases := &s.Endpoints[0], NewLeases("me", time.Hour)
	s.Refresh(time.Minute)
	first := leases.Open(e, Holder{}, Work{}, 0, time.Now())
	if got := e.State(); got.Unseen != 1 || got.InFlight != 1 {
		t.Errorf("after a pick: %+v, want Unseen 1 and InFlight 1", got)
	}
	leases.Open(e, Holder{}, Work{}, 0, time.Now())
	poll.Until(t, "the next scrape", func() bool { return e.State().Unseen == 0 })
	first.Release()
	if got := e.State(); got.InFlight != 1 {
		t.Errorf("after one ended: %+v, want InFlight 1", got)
	}
}

func TestScrape_SlowServerStaysFreshAndStalledOnePauses(t *testing.T) {
	// Jitter of 1 gives the longest pauses.
	r := NewRegistry(Config{Jitter: func() float64 { return 1 }})
	for _, tt := range []struct {
		name     string
		failures int64
		took     time.Duration
		fresh    bool // expected at the end of an equally long next scrape
	}{
		{"quick", 0, time.Millisecond, true},
		{"slow", 0, r.config.Timeout, true},
		{"one failure", 1, r.config.Timeout, true},
		{"connection refused", 5, time.Millisecond, true},
		{"stalled", 3, r.config.Timeout, false},
	} {
		src := &source{staleAfter: int64(r.config.StaleAfter)}
		src.failures.Store(tt.failures)
		least, wait := r.interval(src, tt.took)
		if got := wait+tt.took < time.Duration(r.freshFor.Load()); got != tt.fresh ||
			(least > r.jittered(r.config.Fast)) != (tt.took > r.config.Fast || tt.failures > 0) {
			t.Errorf("%s: wait %v, at least %v; want fresh until the next read: %t", tt.name, wait, least, tt.fresh)
		}
		if !tt.fresh && wait < 14*tt.took {
			t.Errorf("%s: wait %v, want at least 14 times %v", tt.name, wait, tt.took)
		}
	}
}
