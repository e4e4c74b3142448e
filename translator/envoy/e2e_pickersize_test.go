package envoy

import (
	"fmt"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

func TestExternalPicker_AnswerOfAnySizeIsNotHeld(t *testing.T) {
	pod := startPod(t, "a", 200)
	r := newRig(t, closedPort(t))
	for name, fallback := range map[string]model.Fallback{"open": model.FallbackPods, "closed": model.FallbackNone} {
		r.cluster(model.Cluster{Name: named("pool-" + name), Protocol: model.HTTP1, Fallback: fallback},
			endpoints(pod.address)...)
	}
	modes := map[string]model.BodyMode{"duplex": model.BodyDuplex, "whole": model.BodyWhole}
	sizes := map[string]int{"small": 512 << 10, "huge": 32 << 20}
	var pickers []string
	for mode, body := range modes {
		for size, bytes := range sizes {
			p := startPicker(t, map[string]script{
				"": {status: 429, size: bytes, duplex: mode == "duplex", plain: mode == "whole"},
			})
			name := "picker/ns/" + mode + size + "/9002"
			pickers = append(pickers, name)
			r.cluster(model.Cluster{Name: named(name), Protocol: model.GRPC, HealthService: extProcService},
				endpoints(p.address)...)
			for _, pool := range []string{"open", "closed"} {
				r.forward(pool+"-"+mode+"-"+size, model.Forward{Backends: []model.WeightedBackend{{
					Cluster: named("pool-" + pool), Weight: 1,
					Picker: &model.PickerCall{Cluster: named(name), Body: body, Served: true},
				}}})
			}
		}
	}
	r.start()
	r.healthy(pickers...)
	for mode := range modes {
		for _, pool := range []string{"open", "closed"} {
			for size, bytes := range sizes {
				a := r.post(t, pool+"-"+mode+"-"+size, []byte(`{"prompt": "hello"}`))
				if what := fmt.Sprintf("%s, %s, %s", pool, mode, size); size == "small" {
					if a.status != 429 || len(a.body) != bytes {
						t.Errorf("%s: got %s, %d bytes; want 429 with %d", what, a, len(a.body), bytes)
					}
				} else if a.status == 429 || len(a.body) > 4<<10 || pool == "closed" && a.status != 503 {
					t.Errorf("%s: got %s, %d bytes; want no 429, at most 4 KiB, and 503 if closed",
						what, a, len(a.body))
				}
			}
		}
	}
}

// An external picker must not be able to write a lease: it could end our picker's count of another
// request.
func TestExternalPicker_SettlesNoRequestOfOurs(t *testing.T) {
	t.Parallel()
	pod := startPod(t, "a", 200)
	var f feedback
	ours := startPicker(t, map[string]script{"a": {endpoints: pod.address.String()}}, &f)
	theirs := startPicker(t, map[string]script{"": {endpoints: pod.address.String()}})
	r := newRig(t, ours.address)
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(pod.address)...)
	r.cluster(model.Cluster{Name: named("picker/ns/theirs/9002"), Protocol: model.GRPC, HealthService: extProcService},
		endpoints(theirs.address)...)
	r.forward("theirs",
		backends(model.WeightedBackend{Cluster: named("a"), Weight: 1,
			Picker: &model.PickerCall{Cluster: named("picker/ns/theirs/9002"), Body: model.BodyBuffered}}))
	r.forward("ours", backends(pool("a", "a", model.BodyBuffered)))
	r.start()
	r.healthy("picker/ns/theirs/9002")
	for _, host := range []string{"theirs", "ours"} {
		if got, err := r.do(r.request("POST", host, "/"+host, []byte("{}"))); err != nil || got.status != 200 {
			t.Fatalf("%s: got %s %v, want 200", host, got, err)
		}
	}
	r.envoy.Wait("our pick came back", func() bool { return len(f.find("/ours")) == 1 })
	if got := f.find("/theirs"); len(got) > 0 {
		t.Errorf("a lease that another picker names came back: %v, want none", got)
	}
}
