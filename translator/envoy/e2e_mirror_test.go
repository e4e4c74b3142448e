package envoy

import (
	"math"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

func TestRequestMirror_GetsItsShareAndDelaysNothing(t *testing.T) {
	t.Parallel()
	a, all, half, broken := startPod(t, "a", 200), startPod(t, "all", 200), startPod(t, "half", 200),
		startPod(t, "broken", 500)
	r := newRig(t, closedPort(t))
	for _, p := range []*pod{a, all, half, broken} {
		r.cluster(model.Cluster{Name: named(p.name), Protocol: model.HTTP1}, endpoints(p.address)...)
	}
	r.cluster(model.Cluster{Name: named("gone"), Protocol: model.HTTP1}, endpoints(closedPort(t))...)
	r.host("m", model.Route{Name: "m", Match: prefix("/"), Action: &model.Action{
		RequestHeaders: model.HeaderChanges{Set: []model.Header{{Name: "x-set", Value: "set"}}},
		Forward: &model.Forward{
			Backends: []model.WeightedBackend{{Cluster: named("a"), Weight: 1}},
			Mirrors: []model.Mirror{
				{Cluster: named("all"), Numerator: 1, Denominator: 1},
				{Cluster: named("half"), Numerator: 25, Denominator: 50},
				{Cluster: named("broken"), Numerator: 100, Denominator: 100},
				{Cluster: named("gone"), Numerator: 1, Denominator: 1},
			},
		},
	}})
	r.start()
	const n = 400
	body := []byte(strings.Repeat("prompt ", 1000))
	for range n {
		if got := r.post(t, "m", body); got.status != 200 || got.pod != "a" || got.body != digest(body) {
			t.Fatalf("got %s, want 200 from a, with the digest of the body", got)
		}
	}
	r.envoy.Wait("all copies have come", func() bool { return all.hits.Load() == n && broken.hits.Load() == n })
	if got := float64(half.hits.Load()); math.Abs(got-n/2) > 5*math.Sqrt(n/4) {
		t.Errorf("%[2]v copies of %[1]d requests, want half", n, got)
	}
	seen := all.last.Load()
	if seen.Host != "m" || seen.Header.Get("X-Set") != "set" {
		t.Errorf("a copy has host %q, headers %v; want host m and X-Set as its original", seen.Host, seen.Header)
	}
}

// A backend's own filters must apply only to its requests, although Envoy has most filters only for
// whole routes.
func TestBackendRefFilters_ApplyToThatBackendAlone(t *testing.T) {
	t.Parallel()
	a, b, copies := startPod(t, "a", 200), startPod(t, "b", 200), startPod(t, "copies", 200)
	r := newRig(t, closedPort(t))
	for _, p := range []*pod{a, b, copies} {
		r.cluster(model.Cluster{Name: named(p.name), Protocol: model.HTTP1}, endpoints(p.address)...)
	}
	r.forward("own",
		model.Forward{RewriteHost: "rule", RewritePath: model.PathChange{Full: new("/rule")},
			Backends: []model.WeightedBackend{
				{Cluster: named("a"), Weight: 50, RewriteHost: "own", Own: &model.OwnFilters{
					RewritePath: model.PathChange{Prefix: new("/own")},
					Mirrors:     []model.Mirror{{Cluster: named("copies"), Numerator: 1, Denominator: 4}},
				}},
				{Cluster: named("b"), Weight: 30},
				{Cluster: named("a"), Weight: 20, Own: &model.OwnFilters{
					Redirect: &model.Redirect{Host: "elsewhere", Port: 80, Code: 302},
				},
					ResponseHeaders: model.HeaderChanges{Set: []model.Header{{Name: "why", Value: "moved"}}}},
				{
					Cluster: named("b"), Weight: 0,
					Own: &model.OwnFilters{RewritePath: model.PathChange{Full: new("/never")}},
				},
			}})
	r.forward("hosts", model.Forward{Backends: []model.WeightedBackend{
		{Cluster: named("a"), Weight: 1, RewriteHost: "host-of-a"},
		{Cluster: named("b"), Weight: 1, RewriteHost: "host-of-b"},
	}})
	r.start()
	const n = 1000
	counts := map[string]float64{}
	for range n {
		got := r.post(t, "own", nil)
		counts[got.pod]++
		want := map[string][3]string{"a": {"own", "/own/v1/chat/completions", ""}, "b": {"rule", "/rule", ""},
			"": {"", "", "http://elsewhere/v1/chat/completions"}}[got.pod]
		if seen := [3]string{got.header.Get("Echo-Host"), got.header.Get("Echo-Path"),
			got.header.Get("Location")}; seen != want {
			t.Fatalf("backend %q: want %q, got %q", got.pod, want, seen)
		}
		if got.pod == "" && (got.status != 302 || got.header.Get("Why") != "moved") {
			t.Fatalf(`redirected with %d %v, want 302 and Why "moved"`, got.status, got.header)
		}
		if got := r.post(t, "hosts", nil); got.header.Get("Echo-Host") != "host-of-"+got.pod {
			t.Fatalf("backend %s was asked for %s, want %s", got.pod, got.header.Get("Echo-Host"), "host-of-"+got.pod)
		}
	}
	for pod, share := range map[string]float64{"a": 0.5, "b": 0.3, "": 0.2} {
		if math.Abs(counts[pod]-n*share) > 5*math.Sqrt(n*share*(1-share)) {
			t.Errorf("backend %q: %v of %d requests, want a share of %v", pod, counts[pod], n, share)
		}
	}
	r.envoy.Wait("the copies have come", func() bool {
		return r.envoy.Stats("cluster.copies.upstream_rq_active")["cluster.copies.upstream_rq_active"] == 0
	})
	if got, want := float64(copies.hits.Load()), counts["a"]/4; math.Abs(got-want) > 5*math.Sqrt(want*3/4) {
		t.Errorf("%v copies, want about %v", got, want)
	}
}
