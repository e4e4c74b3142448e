package features

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/holding"
)

// limited is a site with one server, which holds each GET until its client gives up, unlike
// penstock sim.
func limited(t *testing.T) (*site, *holding.Server) {
	s, server := newSite(t), holding.Start(true)
	t.Cleanup(server.Close)
	s.ports["pod"] = portOf(t, server.Address())
	return s, server
}

// hold sends requests that the server holds, and returns their statuses.
func (s *site) hold(n int) <-chan int {
	ctx, cancel := context.WithCancel(s.Context())
	statuses := make(chan int, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.base(), nil)
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err != nil {
				statuses <- 0
				return
			}
			defer func() { _ = resp.Body.Close() }()
			statuses <- resp.StatusCode
			<-ctx.Done()
		})
	}
	s.Cleanup(func() { cancel(); all.Wait() })
	return statuses
}

func TestEnvoy_KilledLeavesNoRequestInFlight(t *testing.T) {
	t.Parallel()
	s, server := limited(t)
	s.up("inflight.yaml", swap("inFlight: 1", "inFlight: 4"))
	s.answers("/", http.StatusOK)
	s.hold(4)
	s.holds(server, 4)
	s.answers("/", http.StatusTooManyRequests)
	s.killEnvoy()
	s.logged("Envoy died and will be restarted")
	s.answers("/", http.StatusOK)
}

func TestLimit_CountsLongRequests(t *testing.T) {
	t.Parallel()
	s, server := limited(t)
	s.up("inflight.yaml")
	s.answers("/", http.StatusOK)
	s.hold(1)
	s.holds(server, 1)
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); {
		if got, err := s.ask("/", question); err != nil || got.status != http.StatusTooManyRequests {
			t.Fatalf("beside a request in flight: %d %v, want %d", got.status, err, http.StatusTooManyRequests)
		}
	}
}

// Envoy reports a request's end some milliseconds late. Sequential requests must not get 429.
func TestLimit_LateReportsCauseNo429(t *testing.T) {
	t.Parallel()
	s, _ := limited(t)
	s.up("inflight.yaml")
	s.answers("/", http.StatusOK)
	s.inARow(20, func(got reply) error { return because(got.status == http.StatusOK, got.status) })
}

// Envoy may ask one process for a pick, and log the request's end to the other. Both count all
// requests.
func TestLimit_CountsRequestsOfAllProcesses(t *testing.T) {
	t.Parallel()
	s, server := limited(t)
	other := s.twoProcesses("inflight.yaml", swap("inFlight: 1", "inFlight: 4"))
	s.attach(s.ads())
	s.answers("/", http.StatusOK)
	served, full := 0, 0
	for range 12 { // in sequence, because a count reaches the other process some milliseconds late
		switch status := <-s.hold(1); status {
		case http.StatusOK:
			served++
		case http.StatusTooManyRequests:
			full++
		default:
			t.Errorf("got status %d, want 200 or 429", status)
		}
	}
	if served != 4 || full != 8 || server.Held() != 4 {
		t.Errorf("%d served, %d times 429, %d at the server, want 4, 8 and 4", served, full, server.Held())
	}
	// After a kill, Envoy reports the requests of the killed process to the other one.
	other.kill()
	s.Eventually("the other process counts all requests in flight", func() error {
		got, err := s.ask("/", question)
		return because(err == nil && got.status == http.StatusTooManyRequests && server.Held() == 4, got.status, err)
	})
}

func (s *site) holds(server *holding.Server, n int) {
	s.Helper()
	s.Eventually("requests are in flight", func() error { return because(server.Held() == n, server.Held()) })
}
