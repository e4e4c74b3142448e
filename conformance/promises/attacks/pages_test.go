package attacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var hostilePages = []http.HandlerFunc{
	func(w http.ResponseWriter, r *http.Request) { // the page never begins
		<-r.Context().Done()
	},
	func(w http.ResponseWriter, r *http.Request) { // the page begins and never ends
		_, _ = io.WriteString(w, "vllm:num_requests_waiting 0\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	},
	func(w http.ResponseWriter, r *http.Request) { // the page arrives byte by byte
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "#")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	},
	func(w http.ResponseWriter, r *http.Request) { // the page has no end
		line := []byte(strings.Repeat("vllm:num_requests_waiting{x=\"y\"} 0\n", 1<<10))
		for r.Context().Err() == nil {
			_, _ = w.Write(line)
		}
	},
	func(w http.ResponseWriter, _ *http.Request) { // a page of 8 MiB
		_, _ = w.Write(bytes.Repeat([]byte("vllm:num_requests_running 0    \n"), 8<<20/32))
	},
	func(w http.ResponseWriter, _ *http.Request) { // one line of 8 MiB
		_, _ = w.Write(bytes.Repeat([]byte("x"), 8<<20))
	},
}

// One honest server is in a pool with 120 hostile servers. The picker's copy of the honest server's
// page stays up to date while the pool is used.
func TestScrape_HostilePagesLeaveOthersRead(t *testing.T) {
	s := prepare(t, nil)
	var reads atomic.Int64
	honest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			reads.Add(1)
			_, _ = io.WriteString(w,
				"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0\n")
		}
	}))
	t.Cleanup(honest.Close)
	servers := []backend{at(honest)}
	for i := range 120 {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				hostilePages[i%len(hostilePages)](w, r)
			}
		}))
		t.Cleanup(server.Close)
		servers = append(servers, at(server))
	}
	s.Write("mixed.yaml", poolObjects("mixed", "/mixed", []string{"gw"}, servers...))
	s.serve()
	s.attach()
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	traffic := s.traffic()
	before, peak := s.rss(s.penstock), s.peak(s.penstock)
	verdicts := func() (fresh bool, problems int) {
		text, err := s.page("/debug/pool?pool=default/mixed")
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Verdicts []struct {
				Address, Problem string
				State            struct{ Fresh bool }
			}
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		for _, v := range e.Verdicts {
			if v.Address == fmt.Sprintf("%s:%d", servers[0].address, servers[0].port) {
				fresh = v.State.Fresh
			} else if v.Problem != "" {
				problems++
			}
		}
		return fresh, problems
	}
	s.Eventually("the hostile pages are read", func() error {
		if err := s.ask(http.MethodGet, "/mixed", ""); err != nil {
			return err
		}
		if fresh, problems := verdicts(); problems < 120 || !fresh {
			return fmt.Errorf("pages with a problem: got %d, want at least 120; the honest server is fresh: %v, want "+
				"true", problems, fresh)
		}
		return nil
	})
	began, last := time.Now(), reads.Load()
	for time.Since(began) < 5*time.Second {
		if err := s.ask(http.MethodGet, "/mixed", ""); err != nil {
			t.Error(err)
		}
		if fresh, _ := verdicts(); !fresh {
			t.Fatalf("%v after the attack began, the honest server's page is stale", time.Since(began))
		}
	}
	if n := reads.Load() - last; n < 3 {
		t.Errorf("the honest server's page was read %d times in 5 s, want at least 3", n)
	}
	if most := peak(); most > before+64 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+64)
	}
	traffic.end()
}
