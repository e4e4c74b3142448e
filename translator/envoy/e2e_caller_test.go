package envoy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// callerWorld has hosts with authorization. Their pools have two pods and a hop (internal listener)
// to pool b.
type callerWorld struct {
	*rig
	picker *picker
	pods   []*pod
	hop    model.HopID
}

func newCallerWorld(t *testing.T) *callerWorld {
	t.Helper()
	w := &callerWorld{pods: []*pod{startPod(t, "a", 200), startPod(t, "b", 200)}}
	a, b := w.pods[0].address.String(), w.pods[1].address.String()
	to := model.HopTo("InferencePool", "ns", "b").Address()
	w.picker = startPicker(t, map[string]script{
		"pod":             {endpoints: a},
		"hop":             {endpoints: to},
		"closed, hop":     {endpoints: list(closedPort(t), to), retries: "1"},
		"full hop, pod":   {endpoints: list(model.HopTo("InferencePool", "ns", "full").Address(), a), retries: "1"},
		"vanished hop":    {endpoints: model.HopTo("InferencePool", "ns", "vanished").Address()},
		"full":            {status: 429},
		"quits":           {quits: true},
		"b":               {endpoints: b},
		"full behind hop": {status: 429},
	})
	w.rig = newRig(t, w.picker.address)
	service := (&pod{name: "gate"}).serve(t, gateServer{t})
	w.rig.cluster(gateCluster, endpoints(service.address)...)
	w.hop = w.poolB(w.pods[1])
	w.rig.hop(model.Hop{Name: model.HopTo("InferencePool", "ns", "full"), Backends: []model.WeightedBackend{{
		Cluster: named("pool-b"), Weight: 1, Picker: &model.PickerCall{Cluster: model.OurPicker,
			Pool: poolNamed("full behind hop"), Body: model.BodyBuffered}}}})
	return w
}

// gatedPool adds a host whose gate finds the caller ns/alice.
func (w *callerWorld) gatedPool(host string, backend model.WeightedBackend, retry *model.Retry) {
	w.t.Helper()
	w.host(host, model.Route{Name: host, Match: prefix("/"), Gates: []string{"caller"},
		Action: &model.Action{Forward: &model.Forward{Backends: []model.WeightedBackend{backend}, Retry: retry}}})
}

// No pod receives the caller header: neither a picked pod, nor a fallback pod, nor a pod in a retry
// after a hop. The pickers behind hops receive the caller.
func TestGate_NoServerReceivesTheCallerWhereTheClusterHasPodsAndHops(t *testing.T) {
	t.Parallel()
	w := newCallerWorld(t)
	eps := []model.Endpoint{{Address: w.pods[0].address}, {Hop: w.hop}}
	full := model.Endpoint{Hop: model.HopTo("InferencePool", "ns", "full")}
	type request struct{ host, pod string }
	var requests []request
	again := &model.Retry{Attempts: 2, Codes: []uint32{429, 503}}
	for fallback, lost := range map[model.Fallback]string{
		model.FallbackPods: "a", model.FallbackSpill: "b", model.FallbackAgain: "b"} {
		for does, want := range map[string]string{"pod": "a", "hop": "b", "closed, hop": "b", "full hop, pod": "a",
			"vanished hop": lost, "full": lost, "quits": lost} {
			name := strings.NewReplacer(" ", "-", ",", "").Replace(string(fallback) + "-" + does)
			name = strings.ReplaceAll(name, ":", "")
			if fallback == model.FallbackAgain && does == "full" {
				continue // the client gets the picker's answer
			}
			hops := eps
			if does == "full hop, pod" {
				hops = append(hops[:len(hops):len(hops)], full)
			}
			w.rig.cluster(model.Cluster{Name: named(name), Protocol: model.HTTP1, Fallback: fallback, Hops: true},
				hops...)
			call := &model.PickerCall{Cluster: model.OurPicker, Pool: poolNamed(does), Body: model.BodyBuffered,
				Spills: fallback != model.FallbackAgain, Again: fallback == model.FallbackAgain}
			w.gatedPool(name, model.WeightedBackend{Cluster: named(name), Weight: 1, Picker: call}, again)
			requests = append(requests, request{name, want})
		}
	}
	w.start()
	w.healthy(model.OurGate.String())
	for _, c := range requests {
		before := len(w.picker.seen("b"))
		got := w.gatedPost(t, c.host)
		checkCaller(t, c.host, got, c.pod)
		if c.pod != "b" {
			continue
		}
		w.envoy.Wait("the call of the picker behind the hop ends",
			func() bool { return len(w.picker.seen("b")) > before })
		for _, call := range w.picker.seen("b")[before:] {
			for _, name := range gatedHeaders {
				if call.headers[name] != "ns/alice" {
					t.Errorf("%s: the picker behind the hop receives %v, want ns/alice in each of %v",
						c.host, call.headers, gatedHeaders)
				}
			}
		}
	}
}

// A pool with an external picker that spills is behind its own hop. The hop removes the caller,
// even if the picker is lost.
func TestGate_NoServerReceivesTheCallerBehindAnExternalPicker(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]model.BodyMode{"duplex": model.BodyDuplex, "whole": model.BodyWhole} {
		t.Run(name, func(t *testing.T) {
			w := newCallerWorld(t)
			picks := startPicker(t, map[string]script{"": {endpoints: w.pods[0].address.String(),
				duplex: body == model.BodyDuplex, plain: body == model.BodyWhole}})
			for does, at := range map[string][]model.Endpoint{"answers": endpoints(picks.address),
				"lost": endpoints(closedPort(t))} {
				w.rig.cluster(model.Cluster{Name: named("picker-" + does), Protocol: model.GRPC,
					HealthService: extProcService}, at...)
				w.rig.cluster(model.Cluster{Name: named(does), Protocol: model.HTTP1, Fallback: model.FallbackPods},
					endpoints(w.pods[0].address)...)
				backend := model.WeightedBackend{Cluster: named(does), Weight: 1,
					Picker: &model.PickerCall{Cluster: named("picker-" + does), Body: body}}
				w.gatedPool("direct-"+does, backend, nil)
				w.gatedPool("spills-"+does, w.behindHop(does, backend, w.hop), nil)
			}
			w.start()
			w.healthy(model.OurGate.String(), "picker-answers")
			for _, host := range []string{"direct-answers", "direct-lost", "spills-answers", "spills-lost"} {
				checkCaller(t, host, w.gatedPost(t, host), "a")
			}
		})
	}
}

// gatedPost sends a prompt. It retries if the gate exceeds its timeout on a busy machine.
func (w *callerWorld) gatedPost(t *testing.T, host string) (got answer) {
	t.Helper()
	w.envoy.Wait("the gate of "+host+" answers", func() bool {
		got = w.post(t, host, []byte(`{"model":"llm"}`))
		return got.header.Get(headerReason) != "authorization_unavailable"
	})
	return got
}

func checkCaller(t *testing.T, host string, got answer, pod string) {
	t.Helper()
	if got.status != http.StatusOK || got.pod != pod {
		t.Errorf("%s: %s, want pod %s", host, got, pod)
	}
	for _, name := range gatedHeaders {
		if value := got.header.Get("Echo-" + name); value != "" {
			t.Errorf("%s: pod %s receives %s: %s, want it removed", host, got.pod, name, value)
		}
	}
}
