package picker

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// The expected numbers are from Dynamo's hash_pod_name.
func TestDynamo_WorkersHaveTheNumbersOfTheirPods(t *testing.T) {
	for name, want := range map[string]uint64{
		"worker-0":     1186445869714687,
		"worker-99999": 7410589986301036,
		"deployment-with-hash-suffix-a1b2c3d4e5f6": 2590930466072916,
		"fake-name-1-0-worker-nrdfv":               1009006049675451,
	} {
		if got := podID(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestDynamo_HeadersNameWorkers(t *testing.T) {
	const profiles = "]\nschedulingProfiles: [{name: decode, plugins: [{pluginRef: decode-filter}]}, {name: prefill, " +
		"plugins: [{pluginRef: prefill-filter}]}]"
	const disagg = "{type: decode-filter}, {type: prefill-filter}, {type: prefix-based-pd-decider, parameters: " +
		"{nonCachedTokens: 512}}, {type: disagg-profile-handler, parameters: {deciders: {prefill: " +
		"prefix-based-pd-decider}}}, "
	endpoints := withRoles("10.0.0.1:8000", "decode", "10.0.0.2:8000", "prefill", "10.0.0.2:8001", "prefill")
	endpoints[0].Pod, endpoints[1].Pod, endpoints[2].Pod = "worker-0", "worker-99999", "worker-99999"
	// two servers of one machine
	numbered := withRoles("10.0.0.1:8000", "decode", "10.0.0.1:8001", "prefill")
	numbered[0].Pod, numbered[1].Pod = "servers/10.0.0.1", "servers/10.0.0.1"
	for i, id := range []string{"17", "18"} {
		numbered[i].Labels[endpointpicker.DynamoIDLabel] = id
	}
	unnumbered := withRoles("10.0.0.1:8000", "decode")
	unnumbered[0].Pod = "servers/10.0.0.1"
	ranked := func(prefix string) map[string]string {
		return map[string]string{prefix + "worker-instance-id": "1186445869714687",
			prefix + "prefill-instance-id": "7410589986301036", prefix + "prefill-dp-rank": "",
			"x-dynamo-routing-mode": "disaggregated", "x-prefiller-host-port": ""}
	}
	alone := map[string]string{"x-dynamo-worker-instance-id": "1186445869714687", "x-dynamo-routing-mode": "aggregated"}
	for what, tt := range map[string]struct {
		pool   Pool
		doc    string
		tokens int
		want   map[string]string
	}{
		"both": {Pool{Endpoints: endpoints}, "plugins: [" + disagg + "{type: dynamo-headers}" + profiles,
			600, ranked("x-dynamo-")},
		"plain names": {Pool{Endpoints: endpoints},
			"plugins: [" + disagg + "{type: dynamo-headers, parameters: {names: plain}}" + profiles, 600, ranked("x-")},
		"a short prompt": {Pool{Endpoints: endpoints}, "plugins: [" + disagg + "{type: dynamo-headers}" + profiles,
			100, alone},
		"without stages": {Pool{Endpoints: endpoints[:1]},
			"plugins: [{type: active-request-scorer}, {type: dynamo-headers}]", 600, alone},
		"numbers of labels": {Pool{Endpoints: numbered}, "plugins: [" + disagg + "{type: dynamo-headers}" + profiles,
			600,
			map[string]string{"x-dynamo-worker-instance-id": "17", "x-dynamo-prefill-instance-id": "18",
				"x-dynamo-routing-mode": "disaggregated", "x-prefiller-host-port": ""}},
		"number not known": {Pool{Endpoints: unnumbered},
			"plugins: [{type: active-request-scorer}, {type: dynamo-headers}]", 600, map[string]string{}},
		"without the plugin": {Pool{Endpoints: endpoints[:1]}, "plugins: [{type: active-request-scorer}]", 600,
			map[string]string{}},
	} {
		p := runPicker(t, Config{})
		pool := tt.pool
		pool.ID, pool.Strategy, pool.Plugins, pool.Fallbacks = poolID("ns/pool"), "plugins", parsed(t, tt.doc), 2
		setPools(t, p, pool)
		a := p.Pick(t.Context(), longPrompt(tt.tokens))
		got := named(a)
		for _, rank := range []string{"x-dynamo-prefill-dp-rank", "x-prefill-dp-rank"} {
			if r, ok := got[rank]; ok && (r == "0" || r == "1") {
				got[rank] = ""
			}
		}
		if _, ok := got["x-prefiller-host-port"]; ok {
			got["x-prefiller-host-port"] = ""
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || a.Endpoints.String() != "10.0.0.1:8000" {
			t.Errorf("%s at %s, want 10.0.0.1:8000; headers (-want +got):\n%s", what, a.Endpoints, diff)
		}
	}
}
