package envoy

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func TestService_EndpointWithClosedPortCostsNoRequest(t *testing.T) {
	closed := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(envoytest.FreePort(t)))
	a, b := startPod(t, "a", 200), startPod(t, "b", 200)
	r := newRig(t, closed)
	r.cluster(model.Cluster{Name: named("service/ns/web/80"), Protocol: model.HTTP1},
		endpoints(a.address, b.address, closed)...)
	r.forward("web", model.Forward{Backends: []model.WeightedBackend{{Cluster: named("service/ns/web/80"), Weight: 1}}})
	r.start()
	var failed atomic.Int64
	var requests sync.WaitGroup
	for range 8 {
		requests.Go(func() {
			for i := range 100 {
				body := []byte(`{}`)
				if i%10 == 0 {
					body = make([]byte, 2<<20) // larger than Envoy's default buffer for retries
				}
				if a := r.post(t, "web", body); a.status != 200 {
					failed.Add(1)
				}
			}
		})
	}
	requests.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of 800 requests failed, want 0", n)
	}
}
