package envoy

import (
	"bytes"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// All hops (forwards to other pools) share an internal listener. Only Envoy's chosen endpoint may
// select the hop: a client's header must not. Host must stay the client's through all hops.
func TestHop_ClientNamesNoneAndHostIsItsOwn(t *testing.T) {
	t.Parallel()
	full, good := startPod(t, "full", 503), startPod(t, "good", 200)
	p := startPicker(t, map[string]script{
		"walks": {
			endpoints: list(model.HopTo("InferencePool", "ns", "full").Address(),
				model.HopTo("InferencePool", "ns", "good").Address()), retries: "1",
		},
		"full": {endpoints: full.address.String()},
		"good": {endpoints: good.address.String()},
	})
	r := newRig(t, p.address)
	var eps []model.Endpoint
	for _, to := range []*pod{full, good} {
		hop := model.HopTo("InferencePool", "ns", to.name)
		r.cluster(model.Cluster{Name: named("last-" + to.name), Protocol: model.HTTP1, Fallback: model.FallbackNone},
			endpoints(to.address)...)
		r.hop(
			model.Hop{Name: hop, Backends: []model.WeightedBackend{pool("last-"+to.name, to.name, model.BodyBuffered)}})
		eps = append(eps, model.Endpoint{Hop: hop, Later: len(eps) > 0})
	}
	r.cluster(model.Cluster{Name: named("walking"), Protocol: model.HTTP1, Fallback: model.FallbackSpill, Hops: true},
		eps...)
	r.forward("client.example", backends(spilling(pool("walking", "walks", model.BodyBuffered))))
	r.start()
	body := bytes.Repeat([]byte("x"), 1<<20)
	req := r.request("POST", "client.example:1234", "/v1/chat/completions", body)
	req.Header.Set("Penstock-Peer-Hop", "hop.ns.pool.full")
	req.Header.Set("Penstock-Peer-Authority", "elsewhere.example")
	got, err := r.do(req)
	if err != nil || got.status != 200 || got.pod != "good" || got.body != digest(body) {
		t.Fatalf("got %s, %v; want 200 from good, with the digest of the body", got, err)
	}
	for _, seen := range []*pod{full, good} {
		at := seen.last.Load()
		if at == nil || at.Host != "client.example:1234" {
			t.Fatalf("%s got %+v, want host client.example:1234", seen.name, at)
		}
		for name, v := range at.Header {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "penstock-") ||
				strings.HasPrefix(lower, "x-penstock-") || lower == "x-envoy-original-host" {
				t.Errorf("%s got %s: %v, want it removed", seen.name, name, v)
			}
		}
		// The client's address is appended only once.
		if client := at.Header["X-Forwarded-For"]; len(client) != 1 || strings.Contains(client[0], ",") {
			t.Errorf("%s got X-Forwarded-For %v, want one address", seen.name, client)
		}
	}
}

// A hop's endpoint and its route arrive separately. If the route is missing, a request must go to
// the next hop.
func TestHop_ThatIsNotThereSendsRequestsOn(t *testing.T) {
	t.Parallel()
	good := startPod(t, "good", 200)
	r := newRig(t, closedPort(t))
	gone, next := model.HopTo("InferencePool", "ns", "gone"), model.HopTo("InferencePool", "ns", "next")
	r.cluster(model.Cluster{Name: named("last-next"), Protocol: model.HTTP1, Fallback: model.FallbackPods},
		endpoints(good.address)...)
	r.hop(model.Hop{Name: next, Backends: []model.WeightedBackend{{Cluster: named("last-next"), Weight: 1}}})
	r.cluster(model.Cluster{Name: named("hops"), Protocol: model.HTTP1, Fallback: model.FallbackHops, Hops: true},
		model.Endpoint{Hop: gone}, model.Endpoint{Hop: next, Priority: 1})
	r.forward("llm", backends(model.WeightedBackend{Cluster: named("hops"), Weight: 1, Hops: true}))
	r.start()
	for range 20 {
		if got := r.post(t, "llm", []byte("{}")); got.status != 200 || got.pod != "good" {
			t.Fatalf("got %s, want 200 from good", got)
		}
	}
}
