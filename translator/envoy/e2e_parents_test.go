package envoy

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// All 404s of gateways of other clusters are reported, and few of their other answers; nothing is of other backends, whatever they answer,
// and whatever a client claims. Each report has what it is judged by.
func TestAccessLog_ReportsWhichParentsAnswer404AndFewOtherAnswers(t *testing.T) {
	t.Parallel()
	missing, well := startPod(t, "missing", 404), startPod(t, "well", 200)
	var f feedback
	p := startPicker(t, nil, &f)
	r := newRig(t, p.address)
	for _, to := range []*pod{missing, well} {
		r.cluster(model.Cluster{Name: named(to.name), Protocol: model.HTTP1, Fallback: model.FallbackPods}, endpoints(to.address)...)
		r.forward(to.name, backends(model.WeightedBackend{Cluster: named(to.name), Weight: 1, MaxGateways: 4}))
	}
	hop := model.HopTo("InferencePoolImport", "ns", "west")
	r.hop(model.Hop{Name: hop, Backends: []model.WeightedBackend{{Cluster: named("missing"), Weight: 1, MaxGateways: 4}}})
	r.cluster(model.Cluster{Name: named("hops"), Protocol: model.HTTP1, Fallback: model.FallbackHops, Hops: true}, model.Endpoint{Hop: hop})
	r.forward("behind", backends(model.WeightedBackend{Cluster: named("hops"), Weight: 1, Hops: true}))
	r.forward("service", backends(model.WeightedBackend{Cluster: named("missing"), Weight: 1}))
	r.start()
	const each = 64
	for range each {
		for _, host := range []string{"service", "behind", "missing", "well"} {
			r.post(t, host, []byte("{}"))
		}
	}
	count := func() map[string]int {
		f.mu.Lock()
		defer f.mu.Unlock()
		out := map[string]int{}
		for _, e := range f.entries {
			if e.log != "parents" {
				t.Fatalf("reported to %q: %v", e.log, e)
			}
			is, at := e.GetCommonProperties(), e.GetCommonProperties().GetUpstreamRemoteAddress().GetSocketAddress()
			to, want := missing, uint32(404)
			if host := e.Request.GetAuthority(); host == "well" {
				to, want = well, 200
			}
			if e.Response.GetResponseCode().GetValue() != want || e.Response.GetResponseCodeDetails() != "via_upstream" ||
				!strings.HasSuffix(is.UpstreamCluster, named(to.name).String()) || at.GetAddress() != to.address.Addr().String() || at.GetPortValue() != uint32(to.address.Port()) {
				t.Fatalf("%v", e)
			}
			out[e.Request.GetAuthority()]++
		}
		return out
	}
	r.envoy.Wait("all 404s are reported", func() bool { got := count(); return got["missing"] == each && got["behind"] == each })
	r.envoy.Wait("other answers are reported", func() bool {
		r.post(t, "well", []byte("{}"))
		return count()["well"] > 0
	})
	if got := count(); got["service"] != 0 || got["well"] > each/2 || got["behind"] != each {
		t.Errorf("reported: %v", got)
	}
}
