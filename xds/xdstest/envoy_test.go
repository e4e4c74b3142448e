package xdstest_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func TestResumption_EnvoyGetsOnlyChanges(t *testing.T) {
	w := &world{T: t, a: backend(t), port: envoytest.FreePort(t)}
	w.control = xdstest.Serve(t, server.Config{})
	w.control.Commit(w.base())
	w.proxy = startEnvoy(t, w.control, "DELTA_GRPC")
	w.waitServes(w.port, w.a)
	w.control.WaitAcked(routes("routes"), listener("web"), cluster("a"), endpoints("a"))

	w.control.Stop()
	next, registry := cache.New(cache.Config{}), prometheus.NewRegistry()
	next.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: w.base()})
	next.SetReady()
	w.control.Start(server.Config{Cache: next, Metrics: registry})
	w.wait("Envoy in sync with the new control plane", func() bool {
		list := w.control.Server.Proxies()
		return len(list) == 1 && list[0].InSync
	})
	w.control.WaitAcked(routes("routes"), listener("web"), cluster("a"), endpoints("a"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "penstock_xds_resources_total" && m.GetCounter().GetValue() > 0 {
				t.Errorf("resent: got %v, want 0", m)
			}
		}
	}
}

func TestNACK_ListenerOfBusyPortStartsOncePortIsFree(t *testing.T) {
	w := &world{T: t, reports: &reports{}, a: backend(t), port: envoytest.FreePort(t)}
	taken, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(int(w.port)))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	w.control = xdstest.Serve(t, server.Config{Reports: w.reports})
	w.control.Commit(w.base())
	w.proxy = startEnvoy(t, w.control, "DELTA_GRPC")
	detail := fmt.Sprintf("listener(s) web: cannot bind '127.0.0.1:%d': Address already in use", w.port)
	w.wait("a report with the error detail", func() bool { return strings.Contains(w.reports.message("web"), detail) })
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	w.waitServes(w.port, w.a)
	w.control.WaitAcked(resource.Ref{Type: resource.Listener, Name: "web"})
	w.wait("the report is cleared", func() bool { return w.reports.message("web") == "" })
}
