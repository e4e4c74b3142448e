package app

import (
	"net/http"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// gauge reads one metric without labels.
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
	is := func(leaders, lagging float64) bool {
		return one.gauge(t, "penstock_leader")+other.gauge(t, "penstock_leader") == leaders &&
			one.gauge(t, "penstock_lagging")+other.gauge(t, "penstock_lagging") == lagging
	}
	poll.Until(t, "one leads, and both are synced", func() bool { return is(1, 0) })
	api.Fail(func(string, string) int { return http.StatusServiceUnavailable })
	poll.Until(t, "both lag", func() bool { return is(1, 2) || is(0, 2) })
}
