package features

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// A model server's own answer moves a request to another cluster only if retryOn allows it.
func TestRetryOn_OwnAnswersOfServersMoveOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east, north := s.cluster("east"), s.cluster("north")
	s.up("retryon.yaml", with("far"))
	s.answers("/far", http.StatusOK)
	// statuses sends ten requests while a cluster's server answers with status. It returns the
	// statuses other than 200.
	statuses := func(site *cluster, status int) (out string) {
		site.set(func(c *cluster) { c.status = status })
		for range 10 {
			got, err := s.ask("/far", question)
			if err != nil {
				t.Fatal(err)
			}
			if got.status != http.StatusOK {
				out += fmt.Sprint(got.status, " ")
			}
		}
		site.reset()
		return out
	}
	own := func(status int) string { return strings.Repeat(fmt.Sprint(status, " "), 5) }
	for _, test := range []struct{ causes, full, unavailable string }{
		{"", own(429), own(503)},
		{"TooManyRequests", "", own(503)},
		{"ServiceUnavailable", own(429), ""},
		{"TooManyRequests, ServiceUnavailable", "", ""},
	} {
		if test.causes != "" {
			s.write("retryon.yaml", with("far", "again"),
				swap("retryOn: [TooManyRequests]", "retryOn: ["+test.causes+"]"))
		}
		for _, c := range []*cluster{east, north} {
			s.Eventually("retryOn ["+test.causes+"] for the answers of "+c.name, func() error {
				if full, unavailable := statuses(c, 429),
					statuses(c, 503); full != test.full || unavailable != test.unavailable {
					return fmt.Errorf("answers %q and %q, want %q and %q", full, unavailable, test.full,
						test.unavailable)
				}
				return nil
			})
		}
	}
	// Each cluster is tried once, and the client gets the last answer.
	for _, c := range []*cluster{east, north} {
		c.set(func(c *cluster) { c.status = 429 })
	}
	got, err := s.ask("/far", question)
	_, first := east.counts()
	_, second := north.counts()
	if err != nil || got.status != http.StatusTooManyRequests || first != 1 || second != 1 {
		t.Errorf("%d %v, with %d and %d answers of the servers, want %d, 1, 1",
			got.status, err, first, second, http.StatusTooManyRequests)
	}
}

// A member's gateway dies with a request in flight. Another member answers if retryOn allows it.
func TestRetryOn_LostGatewayMovesRequestsOn(t *testing.T) {
	t.Parallel()
	here, east, west := newSite(t), newSite(t), newSite(t)
	here.member("here", "", "retryon.yaml", with("here"))
	east.server("east-1", "--time-to-first-token", "20s")
	west.server("west-1")
	for name, exporter := range map[string]*site{"east": east, "west": west} {
		exporter.member(name, exporter.peerListener(), "retryon.yaml", with(name))
		here.join(exporter)
	}
	if got := lost(t, here, east); got.status != http.StatusServiceUnavailable ||
		got.header.Get("penstock-peer-lost") != "" {
		t.Errorf("without retryOn: got %d %s %v, want 503 without penstock-peer-lost", got.status, got.body, got.header)
	}
	here.write("retryon.yaml", with("here"), swap("  selection:", "  retryOn: [LostGateway]\n  selection:"))
	here.Eventually("with retryOn the other cluster answers", func() error {
		got := lost(t, here, east)
		return because(got.status == http.StatusOK && got.by() == "west-1" &&
			got.header.Get("penstock-peer-lost") == "",
			got.status, got.body, got.by(), got.header)
	})
}

// lost returns the answer to a request that was at east's server when east's Envoy was killed.
func lost(t *testing.T, here, east *site) reply {
	t.Helper()
	running := func() bool {
		page, err := east.get("http://" + east.address("east-1") + "/metrics")
		return err == nil && strings.Contains(page.body, "num_requests_running{") &&
			!strings.Contains(page.body, `num_requests_running{model_name="llama"} 0`)
	}
	done := make(chan reply, 1)
	asking := false
	here.Eventually("a request is at the server of the first cluster", func() error {
		if running() {
			return nil
		}
		select {
		case got := <-done:
			asking = false
			return fmt.Errorf("it was answered %d by %s, want it in flight; status:\n%s", got.status, got.by(),
				here.status())
		default:
		}
		if !asking {
			asking = true
			go func() {
				got, _ := here.ask("/", question)
				done <- got
			}()
		}
		return errors.New("it is not there yet")
	})
	east.killEnvoy()
	select {
	case got := <-done:
		return got
	case <-time.After(process.Limit):
		t.Fatal("the request is not answered")
	}
	return reply{}
}
