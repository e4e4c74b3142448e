package app

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func (p process) gauge(t *testing.T, name string) float64 {
	t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestMetrics_LeaderAndLaggingProcessesAreVisible(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t)
	api.Install("gateway.networking.k8s.io", "gateways", "v1")
	api.Install("coordination.k8s.io", "leases", "v1")
	one, other := inCluster(t, api, "one"), inCluster(t, api, "other")
	reported := func(leaders, lagging float64) bool {
		return one.gauge(t, "penstock_leader")+other.gauge(t, "penstock_leader") == leaders &&
			one.gauge(t, "penstock_lagging")+other.gauge(t, "penstock_lagging") == lagging
	}
	poll.Until(t, "one leads, and both are synced", func() bool { return reported(1, 0) })
	api.Fail(func(string, string) int { return http.StatusServiceUnavailable })
	poll.Until(t, "both lag", func() bool { return reported(1, 2) || reported(0, 2) })
}

// pipes is a listener without buffers: a client that does not read blocks its server at once.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) get(t *testing.T) net.Conn {
	client, server := net.Pipe()
	p <- server
	t.Cleanup(func() { _ = client.Close() })
	if _, err := fmt.Fprint(client, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return client
}

func statusOf(t *testing.T, conn net.Conn) int {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	return response.StatusCode
}

func TestMetrics_ClientsThatDoNotReadAreFewAndDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "one"}))
		l := pipes(make(chan net.Conn))
		server := &http.Server{Handler: MetricsPage(registry)}
		go func() { _ = server.Serve(l) }()
		defer func() {
			_ = server.Close()
			synctest.Wait()
		}()
		for range metricsClients {
			l.get(t)
		}
		synctest.Wait()
		if got := statusOf(t, l.get(t)); got != http.StatusServiceUnavailable {
			t.Errorf("got status %d beside %d clients that do not read, want 503", got, metricsClients)
		}
		time.Sleep(2*metricsTimeout + time.Second) // on the fake clock of synctest
		if got := statusOf(t, l.get(t)); got != http.StatusOK {
			t.Errorf("status %d after their deadline, want %d", got, http.StatusOK)
		}
	})
}
