package attacks

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

const (
	// faultHeader makes a test build panic: at the pick for a request with this header, at a scrape
	// whose response has the header, and at a request of /explain with the header.
	faultHeader = "penstock.dev-fault"
	// faultName is the resource whose subscription panics.
	faultName = "penstock.dev/fault: panic"
)

const faults = 10

// faultyPages are a pool whose model server makes each scrape panic, and a pool that fails closed.
func faultyPages(t *testing.T, s *site) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			w.Header().Set(faultHeader, "panic")
		}
		_, _ = io.WriteString(w, "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\n")
	}))
	t.Cleanup(server.Close)
	return poolObjects("pages", "/pages", []string{"gw"}, at(server)) +
		poolObjects("strict", "/strict", []string{"gw"}, at(s.server)) + `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: strict}
spec: {targetRef: {name: strict}, picker: {failureMode: FailClose, full: {inFlight: 4}}}
---
` + limitObject("chat")
}

func (s *site) panics(part string) (n int, err error) {
	value, err := s.metric(fmt.Sprintf("penstock_panics_total{part=%q}", part))
	return int(value), err
}

func (s *site) picked(path string) (int, error) {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, "http://"+local(s.gateway)+path,
		strings.NewReader(`{"model":"m"}`))
	if err != nil {
		return 0, err
	}
	req.Header.Set(faultHeader, "panic")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// subscribe opens an ADS stream that subscribes to faultName. It returns the stream's error; nil
// means that the subscription was answered.
func (s *site) subscribe() error {
	conn, err := grpc.NewClient(s.ads, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(s.Context())
	if err != nil {
		return err
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node:                   &corev3.Node{Id: "faulty", Cluster: "default/gw"},
		TypeUrl:                "type.googleapis.com/envoy.config.cluster.v3.Cluster",
		ResourceNamesSubscribe: []string{faultName},
	}); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func (s *site) explained(fault bool) error {
	q := url.Values{"url": {"http://a.example/good"}}
	if fault {
		q.Set("header", faultHeader+": panic")
	}
	_, err := s.page("/explain?" + q.Encode())
	return err
}

func (s *site) countsPanics(t *testing.T) {
	t.Helper()
	// For a pool that fails closed, Envoy asks for a pick a second time before it answers 503.
	for part, want := range map[string]int{"pick": 3 * faults, "stream": faults, "page": faults, "translation": 0} {
		if n, err := s.panics(part); err != nil || n != want {
			t.Errorf("%d panics of part %s are counted (%v), want %d", n, part, err, want)
		}
	}
	log, err := os.ReadFile(filepath.Join(s.dir, "penstock.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"pick", "scrape", "stream", "page"} {
		if n := strings.Count(string(log), "part="+part+" "); n != 1 {
			t.Errorf("the stack of part %s is logged %d times, want 1", part, n)
		}
	}
	if n := strings.Count(string(log), "runtime/debug.Stack"); n != 4 {
		t.Errorf("%d stacks are logged, want one for each place", n)
	}
}

func TestPanic_OfOnePickScrapeStreamOrPageHarmsThatAlone(t *testing.T) {
	binary, err := process.Penstock(t.Context(), t.TempDir(), "-tags", "faults")
	if err != nil {
		t.Fatal(err)
	}
	s := prepare(t, map[string]string{"good.yaml": redirect("good", "/good", "one", "")})
	s.Write("pools.yaml", faultyPages(t, s))
	s.serveWith(binary)
	s.attach()
	s.answers("/good", "302 one")
	for _, path := range []string{"/v1/models", "/strict"} {
		s.Eventually(path+" serves", func() error { return s.ask(http.MethodGet, path, "") })
	}
	traffic := s.traffic()

	// A panicking pick has the effect of a dead picker. Its request is no longer in flight: the
	// pool allows four at a time.
	for path, want := range map[string]int{"/v1/models": 200, "/strict": 503} {
		for range faults {
			if got, err := s.picked(path); err != nil || got != want {
				t.Errorf("%s, whose pick panics, answers %d %v, want %d", path, got, err, want)
			}
		}
		if err := s.ask(http.MethodPost, path, "{}"); err != nil {
			t.Errorf("%s after that: %v", path, err)
		}
	}
	// A server whose page panics serves as a server without metrics. The pages of other pools are
	// read.
	s.Eventually("a scrape panics", func() error {
		if err := s.ask(http.MethodPost, "/pages", "{}"); err != nil {
			return err
		}
		if n, err := s.panics("scrape"); err != nil || n < faults {
			return fmt.Errorf("scrapes that panicked: got %d, want at least %d: %w", n, faults,
				errors.Join(err, errors.New("too few")))
		}
		return nil
	})
	s.Eventually("the other pools are scraped", func() error {
		fresh, _, err := s.scraped("default/chat")
		if err == nil && fresh != 1 {
			err = errors.New("the metrics are not fresh")
		}
		return err
	})
	for range faults {
		if err := s.subscribe(); status.Code(err) != codes.Internal {
			t.Errorf("the stream ended with %v, want Internal", err)
		}
		// The page locks the translation while it panics.
		if err := s.explained(true); err == nil || !strings.Contains(err.Error(), "500") {
			t.Errorf("the page that panics: got %v, want 500", err)
		}
	}
	// No lock stays held: translation, streams, picks and pages continue.
	s.Write("good.yaml", redirect("good", "/good", "two", ""))
	s.answers("/good", "302 two")
	if err := s.explained(false); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/proxies", "/status", "/debug/picks", "/healthz", "/readyz"} {
		if _, err := s.page(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	s.countsPanics(t)
	traffic.end()
}

func TestPanic_PartsHaveNoFaultsInARelease(t *testing.T) {
	s := prepare(t, nil)
	s.Write("pools.yaml", faultyPages(t, s))
	s.serve()
	s.attach()
	for _, path := range []string{"/v1/models", "/pages"} {
		s.Eventually(path+" serves", func() error { return s.ask(http.MethodGet, path, "") })
	}
	if got, err := s.picked("/strict"); err != nil || got != http.StatusOK {
		t.Errorf("a request with the header answers %d %v, want %d", got, err, http.StatusOK)
	}
	if err := errors.Join(s.subscribe(), s.explained(true)); err != nil {
		t.Error(err)
	}
	s.Eventually("the page is read", func() error {
		fresh, _, err := s.scraped("default/pages")
		if err == nil && fresh != 1 {
			err = errors.New("its metrics are not fresh")
		}
		return err
	})
	for _, part := range []string{"pick", "scrape", "stream", "page"} {
		if n, err := s.panics(part); err != nil || n != 0 {
			t.Errorf("%d panics of part %s: %v, want 0", n, part, err)
		}
	}
}
