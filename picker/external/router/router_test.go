package router

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/external"
)

func tokens(from, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(from + i)
	}
	return out
}

func build(t *testing.T, cfg Config) *Router {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	r, err := New(cfg, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRouter_PromptGoesWhereItsBeginningIs(t *testing.T) {
	r := build(t, Config{Workers: []string{"worker-1:8080", "worker-2:8080", "worker-3:8080"}})
	now := time.Now()
	first := map[int]string{}
	for conversation := range 3 {
		first[conversation] = r.Route(tokens(1000*conversation, 640), now)
	}
	if first[0] == first[1] || first[1] == first[2] || first[0] == first[2] {
		t.Errorf("three prompts at once went to %v, want three workers", first)
	}
	for range 5 {
		now = now.Add(time.Minute)
		for conversation := range 3 {
			if got := r.Route(tokens(1000*conversation, 960), now); got != first[conversation] {
				t.Errorf("conversation %d went on at %s, want %s, where it began",
					conversation, got, first[conversation])
			}
		}
	}
}

func TestRouter_BusyWorkerGivesWay(t *testing.T) {
	r := build(t, Config{Workers: []string{"a:1", "b:1"}})
	now := time.Now()
	home := r.Route(tokens(0, 128), now)
	count := map[string]int{}
	for range 40 { // longer and longer prompts with a short common beginning
		count[r.Route(append(tokens(0, 128), tokens(5000*(1+len(count)+count["a:1"]+count["b:1"]), 2000)...), now)]++
	}
	if count["a:1"] < 15 || count["b:1"] < 15 {
		t.Errorf("of 40 long prompts at once, %v; want at least 15 at each worker; the beginning is at %s", count, home)
	}
}

func TestRouter_AnswersOnTheWire(t *testing.T) {
	r := build(t,
		Config{Service: "workers:8000", Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return nil, nil
		}})
	server := external.NewServer(ServerConfig())
	r.Paths(server)
	ask := func(body string) (int, string) {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/route", strings.NewReader(body)))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	if status, text := ask(`{"token_ids": [1, 15043, 29892]}`); status != http.StatusServiceUnavailable {
		t.Errorf("without workers: %d %s, want %d", status, text, http.StatusServiceUnavailable)
	}
	r.set([]string{"worker-3:8080"})
	for _, body := range []string{`{"token_ids": [1, 15043, 29892]}`, `{"token_ids": []}`,
		`{"token_ids": [1], "model": "llama"}`} {
		if status, text := ask(body); status != http.StatusOK || text != `{"worker_address":"worker-3:8080"}` {
			t.Errorf(`%s: %d %s, want %d and "{\"worker_address\":\"worker-3:8080\"}"`,
				body, status, text, http.StatusOK)
		}
	}
	for _, body := range []string{``, `[]`, `{}`, `null`, `{"token_ids": null}`, `{"token_ids": "1"}`,
		`{"token_ids": [-1]}`, `{"token_ids": [1.5]}`} {
		if status, text := ask(body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want %d", body, status, text, http.StatusBadRequest)
		}
	}
}

func TestRouter_FailedLookupKeepsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards found and failure
		found, failure := []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("::ffff:10.0.0.1")},
			error(nil)
		answer := func(addrs []netip.Addr, err error) {
			mu.Lock()
			defer mu.Unlock()
			found, failure = addrs, err
		}
		r := build(t,
			Config{Service: "workers.default.svc:8000",
				Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
					if name != "workers.default.svc" {
						t.Errorf(`name %q, want "workers.default.svc"`, name)
					}
					mu.Lock()
					defer mu.Unlock()
					return found, failure
				}})
		go func() { _ = r.Run(t.Context()) }()
		expect := func(what string, want ...string) {
			t.Helper()
			time.Sleep(lookupEvery)
			synctest.Wait()
			var got []string
			r.mu.Lock()
			for _, w := range r.workers {
				got = append(got, w.address)
			}
			r.mu.Unlock()
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		expect("two pods", "10.0.0.1:8000", "10.0.0.2:8000")
		home := r.Route(tokens(0, 640), time.Now())
		two := found
		answer(two, errors.New("the DNS server does not answer"))
		expect("without DNS", "10.0.0.1:8000", "10.0.0.2:8000")
		answer(append(slices.Clone(two), netip.MustParseAddr("10.0.0.3")), nil)
		expect("a third pod", "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000")
		if got := r.Route(tokens(0, 640), time.Now()); got != home {
			t.Errorf("a prompt after a new worker: got %s, want %s, which has its prefix", got, home)
		}
		answer(nil, &net.DNSError{IsNotFound: true})
		expect("no ready pod")
		if got := r.Route(tokens(0, 640), time.Now()); got != "" {
			t.Errorf("without a ready pod: routed to %s, want nowhere", got)
		}
	})
}

func TestRouter_InvalidConfigNamesTheField(t *testing.T) {
	for _, cfg := range []Config{{}, {Workers: []string{"worker"}}, {Workers: []string{"worker:0"}},
		{Workers: []string{":80"}}, {Service: "workers"}, {Workers: make([]string, maxWorkers+1)}} {
		if _, err := New(cfg, prometheus.NewRegistry()); err == nil || !strings.HasPrefix(err.Error(), "router: ") {
			t.Errorf("%.3v: got %v, want an error of the router's", cfg.Workers, err)
		}
	}
}
