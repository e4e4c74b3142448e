package attacks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hostile starts model servers whose metrics pages never begin or never end. It returns their
// pool's YAML.
func (s *site) hostile(count int) string {
	page := []byte(strings.Repeat("vllm:num_requests_waiting{x=\"y\"} 0\n", 1<<10))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			return
		}
		stalled := strings.HasSuffix(r.Host, "0") || strings.HasSuffix(r.Host, "5")
		for !stalled && r.Context().Err() == nil {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
		<-r.Context().Done()
	})
	var ports []string
	for range count {
		server := httptest.NewServer(handler)
		s.Cleanup(server.Close)
		_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
		ports = append(ports, port)
	}
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: hostile}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /hostile}}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: hostile}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: hostile}
spec:
  selector: {matchLabels: {app: hostile}}
  targetPorts: [{number: 8000}]
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: hostile, labels: {app: hostile}}
spec:
  servers:
  - {address: 127.0.0.1, ports: [%s]}
`, strings.Join(ports, "]}\n  - {address: 127.0.0.1, ports: ["))
}

// scraped returns the number of a pool's endpoints with fresh metrics, and the problems of the
// other endpoints.
func (s *site) scraped(pool string) (fresh int, problems map[string]int, err error) {
	resp, err := http.Get("http://" + local(s.http) + "/debug/pool?pool=" + pool)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var e struct {
		Verdicts []struct {
			State   struct{ Fresh bool }
			Problem string
		}
	}
	problems = map[string]int{}
	err = json.NewDecoder(resp.Body).Decode(&e)
	for _, v := range e.Verdicts {
		if v.State.Fresh {
			fresh++
		} else if strings.Contains(v.Problem, "larger than its limit of 1048576 bytes") {
			problems["large"]++
		} else {
			problems["other"]++
		}
	}
	return fresh, problems, err
}

// A server with such a page must not occupy memory, and the part of the page that was read is not
// used as its load.
func TestScrape_EndlessMetricsPagesCostNoMemory(t *testing.T) {
	s := start(t, nil)
	traffic := s.traffic()
	before := s.rss(s.penstock)
	peak := s.peak(s.penstock)
	s.Write("hostile.yaml", s.hostile(100))
	s.Eventually("the hostile servers are scraped", func() error {
		if err := s.ask(http.MethodGet, "/hostile", ""); err != nil {
			return err
		}
		_, problems, err := s.scraped("default/hostile")
		if err == nil && problems["large"] < 50 {
			err = fmt.Errorf("%d pages of 100 servers are too large, want 50 at least: %v", problems["large"], problems)
		}
		return err
	})
	fresh, problems, err := s.scraped("default/hostile")
	if err != nil || fresh != 0 {
		t.Errorf("%d hostile servers count as scraped, %v: %v, want 0", fresh, problems, err)
	}
	s.Eventually("the other pool is scraped", func() error {
		if fresh, _, err := s.scraped("default/chat"); err != nil || fresh != 1 {
			return errors.Join(err, errors.New("its metrics are not fresh"))
		}
		return nil
	})
	if most := peak(); most > before+64 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+64)
	}
	traffic.end()
}

func TestMetrics_ClientsThatDoNotReadCostNoMemory(t *testing.T) {
	s := start(t, nil)
	traffic := s.traffic()
	before := s.rss(s.penstock)
	peak := s.peak(s.penstock)
	attacker := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}} // acts as another machine
	for range 500 {
		conn, err := attacker.Dial("tcp", local(s.http))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.(*net.TCPConn).SetReadBuffer(1); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.penstock.Answers("http://" + local(s.http) + "/healthz"); err != nil {
		t.Error(err)
	}
	if most := peak(); most > before+64 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+64)
	}
	traffic.end()
}
