package envoy

import (
	"fmt"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// The table of fallbacks (DESIGN, "What Envoy gets"), every cell on the real Envoy: what a client gets when its pool's
// picker answers, is full, is empty, is dead or is slow.

// outcome is who answers: "picked" (the pod that was picked), "pod" (any local pod), "spill" (the other pool), or a
// status.
type outcome string

var pickers = []string{"answers", "full", "empty", "dead", "slow"}

// ours are the rows for our own picker, in modes None and Buffered alike.
var ours = []struct {
	failOpen, spills bool
	fallback         model.Fallback
	want             map[string]outcome
}{
	{true, false, model.FallbackPods, map[string]outcome{"answers": "picked", "full": "429", "empty": "503", "dead": "pod", "slow": "pod"}},
	{false, false, model.FallbackNone, map[string]outcome{"answers": "picked", "full": "429", "empty": "503", "dead": "503", "slow": "503"}},
	{true, true, model.FallbackPods, map[string]outcome{"answers": "picked", "full": "pod", "empty": "pod", "dead": "pod", "slow": "pod"}},
	{false, true, model.FallbackSpill, map[string]outcome{"answers": "picked", "full": "spill", "empty": "spill", "dead": "spill", "slow": "spill"}},
}

func TestOurPickersFailuresEndAsThePoolsPolicySays(t *testing.T) {
	a1, a2, b1 := startPod(t, "a1", 200), startPod(t, "a2", 200), startPod(t, "b1", 200)
	scripts := map[string]script{
		"answers": {endpoints: a2.address.String()},
		"full":    {status: 429},
		"empty":   {status: 503},
		"slow":    {silent: true},
		"b":       {endpoints: b1.address.String()},
	}
	p := startPicker(t, scripts)
	r := newRig(t, p.address)
	r.cluster(model.Cluster{Name: "dead-picker", Protocol: model.GRPC}, endpoints(nobody(t))...)
	r.cluster(model.Cluster{Name: "pool-b", Protocol: model.HTTP1, Fallback: model.FallbackNone}, endpoints(b1.address)...)
	hop := model.HopName("InferencePool", "ns", "b")
	r.hop(model.Hop{Name: hop, Backends: []model.WeightedBackend{{
		Cluster: "pool-b", Weight: 1, Picker: &model.PickerCall{Cluster: model.OurPicker, Pool: "b", Body: model.BodyBuffered},
	}}})
	type cell struct {
		name, host string
		want       outcome
	}
	var cells []cell
	for i, row := range ours {
		cluster := fmt.Sprintf("pool-a-%d", i)
		eps := endpoints(a1.address, a2.address)
		if row.spills {
			eps = append(eps, model.Endpoint{Hop: hop})
		}
		r.cluster(model.Cluster{Name: cluster, Protocol: model.HTTP1, Fallback: row.fallback, Trailers: row.spills}, eps...)
		for _, mode := range []model.BodyMode{model.BodyNone, model.BodyBuffered} {
			for _, does := range pickers {
				call := &model.PickerCall{Cluster: model.OurPicker, Pool: does, Body: mode, Spills: row.spills}
				if does == "dead" {
					call.Cluster = "dead-picker"
				}
				host := fmt.Sprintf("%d-%s-%s", i, mode, does)
				r.forward(host, model.Forward{Backends: []model.WeightedBackend{{Cluster: cluster, Weight: 1, Picker: call}}})
				cells = append(cells, cell{fmt.Sprintf("failOpen=%v/spills=%v/%s/%s", row.failOpen, row.spills, mode, does), host, row.want[does]})
			}
		}
	}
	r.start()
	body := []byte(`{"model":"llm","prompt":"hello"}`)
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := r.post(t, c.host, body)
			checkOutcome(t, got, c.want, a2, body)
		})
	}
}

func checkOutcome(t *testing.T, got answer, want outcome, picked *pod, body []byte) {
	t.Helper()
	ok := false
	switch want {
	case "picked":
		ok = got.pod == picked.name
	case "pod":
		ok = got.pod == "a1" || got.pod == "a2"
	case "spill":
		ok = got.pod == "b1"
	default:
		ok = got.pod == "" && fmt.Sprint(got.status) == string(want)
	}
	if !ok {
		t.Fatalf("want %s, got %s", want, got)
	}
	if got.pod != "" && got.body != digest(body) {
		t.Errorf("the body arrived changed: %s, want %s", got.body, digest(body))
	}
}
