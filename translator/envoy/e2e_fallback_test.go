package envoy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

// These tests check on a real Envoy which answer a client gets if its pool's picker answers, is
// full, returns no pick ("empty"), is dead or is slow.

// outcome is the answer's source: "picked" (the picked pod), "pod" (any pod of the pool), "spill"
// (the other pool), or a status.
type outcome string

var pickers = []string{"answers", "full", "empty", "dead", "slow"}

// ours has the outcomes with our own picker, for BodyNone and BodyBuffered.
var ours = []struct {
	failOpen, spills bool
	fallback         model.Fallback
	want             map[string]outcome
}{
	{
		true, false, model.FallbackPods, map[string]outcome{
			"answers": "picked", "full": "429", "empty": "503", "dead": "pod", "slow": "pod",
		},
	},
	{
		false, false, model.FallbackNone, map[string]outcome{
			"answers": "picked", "full": "429", "empty": "503", "dead": "503", "slow": "503",
		},
	},
	{
		true, true, model.FallbackPods, map[string]outcome{
			"answers": "picked", "full": "pod", "empty": "pod", "dead": "pod", "slow": "pod",
		},
	},
	{
		false, true, model.FallbackSpill, map[string]outcome{
			"answers": "picked", "full": "spill", "empty": "spill", "dead": "spill", "slow": "spill",
		},
	},
}

func TestFailureMode_OfOurPickerDecidesWhatFailedPicksGet(t *testing.T) {
	t.Parallel()
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
	r.cluster(model.Cluster{Name: named("dead-picker"), Protocol: model.GRPC}, endpoints(closedPort(t))...)
	hop := r.poolB(b1)
	var cells []cell
	for i, row := range ours {
		cluster := fmt.Sprintf("pool-a-%d", i)
		eps := endpoints(a1.address, a2.address)
		if row.spills {
			eps = append(eps, model.Endpoint{Hop: hop})
		}
		r.cluster(model.Cluster{Name: named(cluster), Protocol: model.HTTP1, Fallback: row.fallback, Hops: row.spills},
			eps...)
		for _, mode := range []model.BodyMode{model.BodyNone, model.BodyBuffered} {
			for _, does := range pickers {
				call := &model.PickerCall{Cluster: model.OurPicker, Pool: poolNamed(does), Body: mode,
					Spills: row.spills}
				if does == "dead" {
					call.Cluster = named("dead-picker")
				}
				host := fmt.Sprintf("%d-%s-%s", i, mode, does)
				r.forward(host,
					model.Forward{
						Backends: []model.WeightedBackend{{Cluster: named(cluster), Weight: 1, Picker: call}},
					})
				cells = append(cells,
					cell{fmt.Sprintf("failOpen=%v/spills=%v/%s/%s", row.failOpen, row.spills, mode, does), host,
						row.want[does]})
			}
		}
	}
	r.start()
	checkCells(r, cells, a2)
}

type cell struct {
	name, host string
	want       outcome
}

// checkCells sends all requests in parallel, because slow pickers take time.
func checkCells(r *rig, cells []cell, picked *pod) {
	r.t.Helper()
	body := []byte(`{"model":"llm","prompt":"hello"}`)
	answers := make([]chan answer, len(cells))
	for i, c := range cells {
		answers[i] = make(chan answer, 1)
		req := r.request("POST", c.host, "/v1/chat/completions", body)
		go func() {
			got, err := r.do(req)
			if err != nil {
				got.body = err.Error()
			}
			answers[i] <- got
		}()
	}
	for i, c := range cells {
		r.t.Run(c.name, func(t *testing.T) { checkOutcome(t, <-answers[i], c.want, picked, body) })
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

// external has the outcomes with an external picker in FULL_DUPLEX_STREAMED, in which Envoy cannot
// ignore an immediate response. So a pool that spills is behind its own hop (internal listener),
// and Envoy retries a hop's 429 or 503 at the next hop. With a slow picker, only the user's timeout
// ends an attempt. A "lost" picker's endpoint is Unhealthy, so Envoy does not call the picker.
var external = []struct {
	failOpen, spills bool
	fallback         model.Fallback
	want             map[string]outcome
}{
	{
		true, false, model.FallbackPods, map[string]outcome{
			"answers": "picked", "full": "429", "empty": "503", "dead": "pod", "lost": "pod", "slow": "504",
		},
	},
	{
		false, false, model.FallbackNone, map[string]outcome{
			"answers": "picked", "full": "429", "empty": "503", "dead": "503", "lost": "503", "slow": "504",
		},
	},
	{
		true, true, model.FallbackPods, map[string]outcome{
			"answers": "picked", "full": "spill", "empty": "spill", "dead": "pod", "lost": "pod", "slow": "504",
		},
	},
	{
		false, true, model.FallbackNone, map[string]outcome{
			"answers": "picked", "full": "spill", "empty": "spill", "dead": "spill", "lost": "spill", "slow": "504",
		},
	},
}

// Pickers that do not send bodies back (BodyWhole) must have the same outcomes as in BodyDuplex.
func TestFailureMode_OfExternalPickersDecidesWhatFailedPicksGet(t *testing.T) {
	t.Parallel()
	t.Run("duplex", func(t *testing.T) { externalFailures(t, model.BodyDuplex) })
	t.Run("whole", func(t *testing.T) { externalFailures(t, model.BodyWhole) })
}

func externalFailures(t *testing.T, body model.BodyMode) {
	t.Parallel()
	duplex, plain := body == model.BodyDuplex, body == model.BodyWhole
	a1, a2, b1 := startPod(t, "a1", 200), startPod(t, "a2", 200), startPod(t, "b1", 200)
	b := startPicker(t, map[string]script{"b": {endpoints: b1.address.String()}})
	r := newRig(t, b.address)
	for does, s := range map[string]script{
		"answers": {endpoints: a2.address.String(), duplex: duplex, plain: plain},
		"full":    {status: 429, duplex: duplex, plain: plain},
		"empty":   {status: 503, duplex: duplex, plain: plain},
		"lost":    {endpoints: a2.address.String(), duplex: duplex, plain: plain},
		"slow":    {silent: true},
	} {
		at := endpoints(startPicker(t, map[string]script{"": s}).address)
		at[0].Unhealthy = does == "lost"
		r.cluster(model.Cluster{Name: named("picker-" + does), Protocol: model.GRPC, HealthService: extProcService},
			at...)
	}
	r.cluster(model.Cluster{Name: named("picker-dead"), Protocol: model.GRPC, HealthService: extProcService},
		endpoints(closedPort(t))...)
	hopB := r.poolB(b1)
	timeout := time.Second
	var cells []cell
	for i, row := range external {
		cluster := fmt.Sprintf("pool-a-%d", i)
		r.cluster(model.Cluster{Name: named(cluster), Protocol: model.HTTP1, Fallback: row.fallback},
			endpoints(a1.address, a2.address)...)
		for _, does := range append(slices.Clip(pickers), "lost") {
			host := fmt.Sprintf("%d-%s", i, does)
			backend := model.WeightedBackend{
				Cluster: named(cluster), Weight: 1,
				Picker: &model.PickerCall{Cluster: named("picker-" + does), Body: body},
			}
			if row.spills {
				backend = r.behindHop("a-"+host, backend, hopB)
			}
			r.forward(host, model.Forward{Timeout: &timeout, Backends: []model.WeightedBackend{backend}})
			cells = append(cells,
				cell{fmt.Sprintf("failOpen=%v/spills=%v/%s", row.failOpen, row.spills, does), host, row.want[does]})
		}
	}
	r.start()
	r.healthy("picker-answers", "picker-full", "picker-empty", "picker-slow")
	checkCells(r, cells, a2)
}

// behindHop puts a backend behind its own hop. Envoy retries its failed requests at the hops in
// next.
func (r *rig) behindHop(name string, backend model.WeightedBackend, next ...model.HopID) model.WeightedBackend {
	r.t.Helper()
	own := model.HopTo("InferencePool", "ns", name)
	r.hop(model.Hop{Name: own, Backends: []model.WeightedBackend{backend}})
	eps := []model.Endpoint{{Hop: own}}
	for i, hop := range next {
		eps = append(eps, model.Endpoint{Hop: hop, Priority: uint32(i + 1)})
	}
	r.cluster(model.Cluster{Name: named("hops-" + name), Protocol: model.HTTP1, Fallback: model.FallbackHops,
		Hops: true}, eps...)
	return model.WeightedBackend{Cluster: named("hops-" + name), Weight: 1, Hops: true}
}

func (r *rig) poolB(pods ...*pod) (hop model.HopID) {
	r.t.Helper()
	var eps []model.Endpoint
	for _, p := range pods {
		eps = append(eps, model.Endpoint{Address: p.address})
	}
	r.cluster(model.Cluster{Name: named("pool-b"), Protocol: model.HTTP1, Fallback: model.FallbackNone}, eps...)
	hop = model.HopTo("InferencePool", "ns", "b")
	r.hop(model.Hop{Name: hop, Backends: []model.WeightedBackend{{
		Cluster: named("pool-b"), Weight: 1, Picker: &model.PickerCall{
			Cluster: model.OurPicker, Pool: poolNamed("b"), Body: model.BodyBuffered,
		},
	}}})
	return hop
}
