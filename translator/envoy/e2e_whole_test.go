package envoy

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-project/penstock/translator/model"
)

// The inference extension's reference picker (v1.6.0) sends no body back, and acknowledges body
// chunks before the headers. It must work with BodyWhole: in FULL_DUPLEX_STREAMED, each request
// with a body would get a 503.
func TestExternalPicker_ThatKeepsBodiesStillPicks(t *testing.T) {
	pods := []*pod{startPod(t, "a", 200), startPod(t, "b", 200)}
	p := startPicker(t, map[string]script{"": {plain: true, endpoints: pods[1].address.String()}})
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("picker/ns/epp/9002"), Protocol: model.GRPC, HealthService: extProcService},
		endpoints(p.address)...)
	r.cluster(model.Cluster{Name: named("pool/ns/llm"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(pods[0].address, pods[1].address)...)
	r.forward("llm", model.Forward{Backends: []model.WeightedBackend{{
		Cluster: named("pool/ns/llm"), Weight: 1, Picker: &model.PickerCall{
			Cluster: named("picker/ns/epp/9002"), Body: model.BodyWhole, Served: true,
		},
	}}})
	r.start()
	r.healthy("picker/ns/epp/9002")
	for name, body := range map[string][]byte{"none": nil, "short": []byte(`{"prompt": "hello"}`),
		"long": bytes.Repeat([]byte("x"), 3<<20)} {
		for _, chunked := range []bool{false, true} {
			req := r.request("POST", "llm", "/v1/chat/completions", body)
			if chunked {
				req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
			}
			a, err := r.do(req)
			if err != nil {
				t.Fatal(err)
			}
			if a.status != 200 || a.pod != "b" || a.body != digest(body) {
				t.Errorf("%s, chunked %v: %s, want 200 from b with %s", name, chunked, a, digest(body))
			}
		}
	}
	if len(p.seen("")) == 0 {
		t.Error("the picker was not asked")
	}
	for _, call := range p.seen("") {
		if call.served != pods[1].address.String() {
			t.Errorf("the picker received that %q served, want %s", call.served, pods[1].address)
		}
	}
}

// Among replicas that elect a leader, followers answer health checks with NOT_SERVING and never
// pick. Envoy must call only the leader.
func TestExternalPicker_FollowersAreNotAsked(t *testing.T) {
	pod := startPod(t, "a", 200)
	leader := startPicker(t, map[string]script{"": {duplex: true, endpoints: pod.address.String()}})
	notLeading := health.NewServer()
	notLeading.SetServingStatus(extProcService, healthv1.HealthCheckResponse_NOT_SERVING)
	follower := startPicker(t, map[string]script{"": {silent: true}}, notLeading)
	r := newRig(t, closedPort(t))
	picker := model.Cluster{Name: named("picker/ns/epp/9002"), Protocol: model.GRPC, HealthService: extProcService,
		ServesHealth: true}
	r.cluster(picker, endpoints(leader.address, follower.address)...)
	r.cluster(model.Cluster{Name: named("pool/ns/llm"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(pod.address)...)
	r.forward("llm", model.Forward{Backends: []model.WeightedBackend{{
		Cluster: named("pool/ns/llm"), Weight: 1, Picker: &model.PickerCall{
			Cluster: picker.Name, Body: model.BodyDuplex, Served: true,
		},
	}}})
	r.start()
	r.healthy(picker.Name.String())
	for range 20 {
		if a := r.post(t, "llm", []byte(`{"prompt": "hello"}`)); a.status != 200 {
			t.Fatal(a)
		}
	}
	if n := len(follower.seen("")); n > 0 {
		t.Errorf("the follower was asked %d times, want 0", n)
	}
}
