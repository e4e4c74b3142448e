package attacks

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A client queues far more requests than the limit, each with a fairness ID of its own, and leaves.
func TestFlowControl_FloodOfWaitingRequestsIsBounded(t *testing.T) {
	const (
		flood = 3000
		full  = 1000
		// more at once wait longer than message_timeout for a loaded machine's Envoy, and a pool
		// that fails open serves them
		burst = 100
	)
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = io.WriteString(w,
				"vllm:num_requests_waiting 5\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.1\n")
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	s := start(t,
		map[string]string{"slow.yaml": poolObjects("slow", "/slow", []string{"gw"}, at(slow)) +
			`apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: slow}
spec: {targetRef: {name: slow}, picker: {trustHeaders: true, flowControl: {maxRequests: 1000}}}
`})
	before, most := s.rss(s.penstock), s.peak(s.penstock)
	traffic := s.traffic()
	ctx, leave := context.WithCancel(t.Context())
	var rejected atomic.Int32
	var all sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	waiting := func() float64 {
		n, _ := s.metric(`penstock_picker_flow_requests{pool="default/slow",priority="0"}`) // no series: none waits
		return n
	}
	for i := range flood {
		all.Go(func() {
			q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+local(s.gateway)+"/slow",
				strings.NewReader(`{"model":"m","prompt":"p"}`))
			if err != nil {
				t.Error(err)
				return
			}
			q.Header.Set("x-llm-d-inference-fairness-id", fmt.Sprint(strings.Repeat("x", 200), i))
			response, err := client.Do(q)
			if err != nil {
				return // the client has left
			}
			_ = response.Body.Close()
			if response.StatusCode == http.StatusTooManyRequests &&
				response.Header.Get("x-penstock-reason") == "queue_full" {
				rejected.Add(1)
			}
		})
		if sent := i + 1; sent%burst == 0 {
			s.Eventually(
				"1,000 requests wait and all others are answered 429, but for the first ones, which are served",
				func() error {
					if are, n := int(rejected.Load()), int(waiting()); n < min(sent, full)-burst || are+n < sent-burst {
						return fmt.Errorf("of %d requests %d are rejected, %d wait", sent, are, n)
					}
					return nil
				})
		}
	}
	time.Sleep(time.Second)
	if n := waiting(); n != full {
		t.Errorf("%.0f requests wait, want %d", n, full)
	}
	leave()
	all.Wait()
	s.Eventually("nothing waits once the client has left", func() error {
		if n := waiting(); n > 0 {
			return fmt.Errorf("%.0f requests wait", n)
		}
		return nil
	})
	traffic.end()
	if m := most(); m > before+256 {
		t.Errorf("resident memory rose from %.0f to %.0f MiB", before, m)
	}
}
