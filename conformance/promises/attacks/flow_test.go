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

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// stalled is a model server that reports a queue, and answers only when the test ends.
func stalled(t *testing.T) *httptest.Server {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	return server
}

type crowd struct {
	url      string
	client   http.Client
	rejected atomic.Int32
}

func (c *crowd) send(ctx context.Context, t *testing.T, i int) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(`{"model":"m","prompt":"p"}`))
	if err != nil {
		t.Error(err)
		return
	}
	q.Header.Set("x-llm-d-inference-fairness-id", fmt.Sprint(strings.Repeat("x", 200), i))
	response, err := c.client.Do(q)
	if err != nil {
		return
	}
	_ = response.Body.Close()
	if response.StatusCode == http.StatusTooManyRequests && response.Header.Get("x-penstock-reason") == "queue_full" {
		c.rejected.Add(1)
	}
}

// A client sends far more requests than the queue's limit, each with its own fairness ID, and
// leaves.
func TestFlowControl_FloodOfWaitingRequestsIsBounded(t *testing.T) {
	const (
		flood = 3000
		full  = 1000
		// With a larger burst, Envoy on a busy machine exceeds message_timeout, and the pool fails
		// open.
		burst = 100
	)
	s := start(t,
		map[string]string{"slow.yaml": poolObjects("slow", "/slow", []string{"gw"}, at(stalled(t))) +
			`apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: slow}
spec: {targetRef: {name: slow}, picker: {trustHeaders: true, flowControl: {maxRequests: 1000}}}
`})
	before, most := s.rss(s.penstock), s.peak(s.penstock)
	traffic := s.traffic()
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	clients := crowd{url: "http://" + local(s.gateway) + "/slow",
		client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
	waiting := func() int {
		n, _ := s.metric(`penstock_picker_flow_requests{pool="default/slow",priority="0"}`) // no series: empty queue
		return int(n)
	}
	for i := range flood {
		all.Go(func() { clients.send(ctx, t, i) })
		if sent := i + 1; sent%burst == 0 {
			s.Eventually(
				"1,000 requests wait and all others are answered 429, but for the first ones, which are served",
				func() error {
					rejected, n := int(clients.rejected.Load()), waiting()
					if n < min(sent, full)-burst || rejected+n < sent-burst {
						return fmt.Errorf("of %d requests %d are rejected, %d wait, want at least %d waiting, and %d "+
							"in all", sent, rejected, n, min(sent, full)-burst, sent-burst)
					}
					return nil
				})
		}
	}
	s.Eventually("the queue is full", func() error {
		if n := waiting(); n != full {
			return fmt.Errorf("%d requests wait, want %d", n, full)
		}
		return nil
	})
	poll.Never(t, "the queue is longer or shorter", time.Second, func() bool { return waiting() != full })
	leave()
	all.Wait()
	s.Eventually("nothing waits once the client has left", func() error {
		if n := waiting(); n > 0 {
			return fmt.Errorf("%d requests wait, want none", n)
		}
		return nil
	})
	traffic.end()
	if got, want := most(), before+256; got > want {
		t.Errorf("got a resident memory of %.0f MiB, want at most %.0f MiB", got, want)
	}
}
