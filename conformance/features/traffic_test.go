package features

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func (s *site) envoyMetrics() string {
	s.Helper()
	sockets, err := filepath.Glob(filepath.Join(s.state, "proxies", "*", "admin.sock"))
	if err != nil || len(sockets) != 1 {
		s.Fatalf("admin sockets %v: %v, want 1 of them", sockets, err)
	}
	got, err := s.read(overSocket(sockets[0]), "http://admin/stats/prometheus")
	if err != nil {
		s.Fatal(err)
	}
	return got.body
}

// If Envoy chooses among the clusters of an import by EDS, no picker gets the requests. Envoy's
// metrics count them by cluster, under last/MODE/NAMESPACE/NAME/CLUSTER.
func TestTraffic_EnvoysMetricsHaveTheRequestsOfEachCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east, west := s.cluster("east"), s.cluster("west")
	s.up("traffic.yaml")
	names := map[string]string{"east": "last/import/default/far/east", "west": "last/parent/default/far/west"}
	want := map[string]int{s.answers("/far", http.StatusOK).by() + " 2": 1}
	send := func(n int) {
		t.Helper()
		for range n {
			got, err := s.ask("/far", question)
			if err != nil {
				t.Fatal(err)
			}
			want[fmt.Sprintf("%s %d", got.by(), got.status/100)]++
		}
	}
	counted := func(what string) {
		t.Helper()
		s.Eventually(what, func() error {
			page := s.envoyMetrics()
			for key, n := range want {
				cluster, class, _ := strings.Cut(key, " ")
				line := fmt.Sprintf(
					"envoy_cluster_upstream_rq_xx{envoy_response_code_class=%q,envoy_cluster_name=%q} %d\n",
					class, names[cluster], n)
				if !strings.Contains(page, line) {
					return fmt.Errorf("got\n%s\nwant the line %s", page, line)
				}
			}
			for _, name := range names {
				for _, line := range []string{"envoy_cluster_upstream_rq_time_sum{",
					"envoy_cluster_upstream_cx_rx_bytes_total{"} {
					if !strings.Contains(page, line+fmt.Sprintf("envoy_cluster_name=%q} ", name)) {
						return fmt.Errorf("got\n%s\nwant %s of %s", page, line, name)
					}
				}
			}
			return nil
		})
	}
	send(12)
	counted("by weight")
	if want["east 2"] == 0 || want["west 2"] == 0 {
		t.Errorf("requests: got %v, want some for each cluster", want)
	}
	east.set(full)
	send(4)
	counted("what east declines counts at west")
	west.set(func(c *cluster) { c.status = http.StatusInternalServerError })
	send(2)
	counted("what west fails")
	if want["west 5"] != 2 {
		t.Errorf("requests: got %v, want 2 that west answers with 5xx", want)
	}
}
