package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// envoyMetrics is the page for Prometheus of the Envoy of this site's one Gateway.
func (s *site) envoyMetrics() string {
	s.t.Helper()
	sockets, err := filepath.Glob(filepath.Join(s.state, "proxies", "*", "admin.sock"))
	if err != nil || len(sockets) != 1 {
		s.t.Fatalf("admin sockets %v: %v", sockets, err)
	}
	c := &http.Client{Timeout: pollTimeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", sockets[0])
	}}}
	resp, err := c.Get("http://admin/stats/prometheus")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// Where EDS chooses among the clusters of an import, no picker sees the requests. Envoy's metrics have them by cluster, under the names of OPERATIONS.md.
func TestTraffic_EnvoysMetricsHaveTheRequestsOfEachCluster(t *testing.T) {
	t.Parallel()
	east, west := newExportingCluster(t, "east"), newExportingCluster(t, "west")
	port := freePort(t)
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "far.yaml": routeYAML("far", "/far", toImport("far")),
		"import.yaml": "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" + east.entry("EndpointMode", 3) + west.entry("ParentMode", 1),
	})
	names := map[string]string{"east": "last/import/default/far/east", "west": "last/parent/default/far/west"}
	want := map[string]int{answers(t, local(port)+"/far", http.StatusOK).header.Get("x-served-by") + " 2": 1}
	send := func(n int) {
		t.Helper()
		for range n {
			got, err := chat(t.Context(), local(port)+"/far")
			if err != nil {
				t.Fatal(err)
			}
			want[fmt.Sprintf("%s %d", got.header.Get("x-served-by"), got.status/100)]++
		}
	}
	counted := func(what string) {
		t.Helper()
		eventually(t, what, func() error {
			page := s.envoyMetrics()
			for key, n := range want {
				cluster, class, _ := strings.Cut(key, " ")
				line := fmt.Sprintf("envoy_cluster_upstream_rq_xx{envoy_response_code_class=%q,envoy_cluster_name=%q} %d\n", class, names[cluster], n)
				if !strings.Contains(page, line) {
					return fmt.Errorf("no %s", line)
				}
			}
			for _, name := range names {
				for _, line := range []string{"envoy_cluster_upstream_rq_time_sum{", "envoy_cluster_upstream_cx_rx_bytes_total{"} {
					if !strings.Contains(page, line+fmt.Sprintf("envoy_cluster_name=%q} ", name)) {
						return fmt.Errorf("no %s of %s", line, name)
					}
				}
			}
			return nil
		})
	}
	send(12)
	counted("by weight")
	if want["east 2"] == 0 || want["west 2"] == 0 {
		t.Errorf("one cluster had no request: %v", want)
	}
	east.set(func(c *exportingCluster) { c.declines = typev3.StatusCode_TooManyRequests })
	send(4)
	counted("what east declines counts at west")
	west.set(func(c *exportingCluster) { c.status = http.StatusInternalServerError })
	send(2)
	counted("what west fails")
	if want["west 5"] != 2 {
		t.Errorf("%v", want)
	}
}
