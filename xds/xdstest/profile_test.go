package xdstest_test

import (
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func TestProfile_UpgradeKeepsListenersOfOldProfile(t *testing.T) {
	w := &world{T: t, a: backend(t), b: backend(t), port: envoytest.FreePort(t)}
	w.control = xdstest.Serve(t, server.Config{})
	w.control.Commit(w.base())
	w.proxy = startEnvoy(t, w.control, "DELTA_GRPC")
	w.waitServes(w.port, w.a)

	var l listenerv3.Listener
	if err := proto.Unmarshal(xdstest.Listener(t, "web", w.port, "routes").Body(), &l); err != nil {
		t.Fatal(err)
	}
	l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(12345)
	other := append(w.base(), xdstest.Resource(t, resource.Listener, "web", &l, routes("routes")))
	good := list(xdstest.Cluster(t, "b", 0), xdstest.Endpoints(t, "b", w.b), xdstest.Routes(t, "routes", "b"))
	next := cache.New(cache.Config{})
	next.Commit(
		cache.Batch{Gateway: xdstest.Gateway, Upserts: append(other, good...)},
		cache.Batch{Gateway: xdstest.Gateway, Profile: bootstrap.DefaultProfile, Upserts: append(w.base(), good...)},
	)
	next.SetReady()
	w.control.Stop()
	w.control.Start(server.Config{Cache: next})
	w.waitServes(w.port, w.b)
	stats := w.proxy.(envoySubject).Stats("listener_manager.listener_(modified|in_place_updated|removed)")
	for name, n := range stats {
		if n != 0 {
			t.Errorf("%s: %d, want 0", name, n)
		}
	}
	if len(stats) != 3 {
		t.Errorf("counters are missing: %v, want 3 of them", stats)
	}
}
