//go:build engines

package features

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

type counting struct {
	proxy *httputil.ReverseProxy
	given atomic.Int64
	stuck atomic.Int64 // requests in flight
}

func newCounting(s *site, e *engine) *counting {
	s.Helper()
	to, err := url.Parse(e.url(""))
	if err != nil {
		s.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	return &counting{proxy: proxy}
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.UserAgent() != "penstock" {
		c.given.Add(1)
		c.stuck.Add(1)
		defer c.stuck.Add(-1)
	}
	c.proxy.ServeHTTP(w, r)
}

// chats sends a request every 100 ms until ctx ends. Clients give up after limit. It returns the
// numbers of requests and of failed requests.
func (s *site) chats(ctx context.Context, stream bool, limit time.Duration) (sent, failed int64) {
	var all sync.WaitGroup
	var bad atomic.Int64
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			all.Wait()
			return sent, bad.Load()
		case <-every.C:
		}
		sent++
		const form = `{"model":"tiny","max_tokens":16,"ignore_eos":true,"stream":%v,` +
			`"messages":[{"role":"user","content":"%d %s"}]}`
		body := fmt.Sprintf(form, stream, n, strings.Repeat("word ", 100))
		all.Go(func() {
			ctx, cancel := context.WithTimeout(s.Context(), limit)
			defer cancel()
			req, err := request(ctx, s.url("/"), body)
			if err == nil {
				var got reply
				if got, err = do(client(), req); err == nil && got.status != http.StatusOK {
					err = errors.New(got.body)
				}
			}
			if err != nil {
				bad.Add(1)
			}
		})
	}
}

// The engine core of one of two servers stops. Its API server stays healthy, its metrics keep their
// values, and streams get headers. After three seconds it gets at most three more requests,
// streamed or not, even if clients give up.
func TestEngines_VLLMHung(t *testing.T) {
	s := newSite(t)
	s.publishers()
	works, hangs := s.engine("vllm", "a"), s.engine("vllm", "b")
	s.starts(works, hangs)
	front := newCounting(s, hangs)
	s.backend("b", front)
	s.up("engines.yaml")
	s.listed(`"tiny"`)
	most := int64(0)
	for _, c := range []struct {
		name   string
		stream bool
		limit  time.Duration
	}{
		{"streams", true, 30 * time.Second},
		{"streams whose clients give up", true, 2 * time.Second},
		{"answers that are not streamed", false, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			core, err := hangs.core()
			if err != nil {
				t.Fatal(err)
			}
			s.Eventually("both servers serve", func() error {
				before := front.given.Load()
				ctx, cancel := context.WithTimeout(s.Context(), 3*time.Second)
				defer cancel()
				sent, failed := s.chats(ctx, c.stream, 30*time.Second)
				given := front.given.Load() - before
				return because(failed == 0 && given > 3, sent, " sent, ", failed, " failed, given ", given)
			})
			ctx, cancel := context.WithCancel(s.Context())
			defer cancel()
			ended := make(chan [2]int64, 1)
			go func() {
				sent, failed := s.chats(ctx, c.stream, c.limit)
				ended <- [2]int64{sent, failed}
			}()
			at := func(d time.Duration) { // waits for d
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
			}
			at(2 * time.Second)
			if err := syscall.Kill(core, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			resume := func() { _ = syscall.Kill(core, syscall.SIGCONT) }
			defer resume()
			before := front.given.Load()
			at(3 * time.Second)
			early := front.given.Load()
			at(12 * time.Second)
			given, stuck := front.given.Load()-early, front.stuck.Load()
			most = max(most, given)
			text := s.explain(s.url("/"))
			t.Logf("given %d in the first 3 s, then %d; %d are in flight there", early-before, given, stuck)
			// Three abandoned requests are too few to detect a silent server.
			few := early-before+given <= 3
			if given > 3 || !few && !strings.Contains(text, "since 20") {
				t.Errorf("requests to the stopped server after the first three seconds: got %d, want at most 3, and "+
					"explain to name it\n%s", given, text)
			}
			resume()
			s.Eventually("it serves again", func() error {
				text := s.explain(s.url("/"))
				return because(!strings.Contains(text, "suspect"), text)
			})
			cancel()
			result := <-ended
			t.Logf("%d requests, %d failed", result[0], result[1])
		})
	}
	figure("hung_stuck", "requests", float64(most), 3,
		"Requests given to a vLLM whose engine core is stopped, from 3 s to 15 s after that: the worst of streams, "+
			"of streams whose clients give up after 2 s, and of answers that are not streamed.")
}
