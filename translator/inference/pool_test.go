package inference_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

func TestInferencePool_WithoutEndpointPickerRefUsesOurPickerAndFailsOpen(t *testing.T) {
	p := pool(t, world(t, chatPool), "default/chat")
	if p.External || p.Picker.Cluster != model.OurPicker || p.Picker.Pool.String() != "default/chat" ||
		p.Picker.Body != model.BodyBuffered {
		t.Errorf("picker %+v, want ours, for default/chat, that reads bodies", p.Picker)
	}
	if !p.FailOpen || p.Settings.Strategy != "load" || p.Settings.Fallbacks != 2 {
		t.Errorf("defaults: fail open %v, %+v; want true, strategy load, 2 fallbacks", p.FailOpen, p.Settings)
	}
	if p.Last != p.Cluster || len(p.Spill) != 0 {
		t.Errorf("it spills to nothing: last %s, spill %v, want %s and none", p.Last, p.Spill, p.Cluster)
	}
}

func TestPoolPolicy_SetsThePicker(t *testing.T) {
	p := pool(t, world(t, chatPool+`
---
kind: PoolPolicy
metadata: {name: p}
spec:
  targetRef: {name: chat}
  picker: {strategy: round-robin, failureMode: FailClose, body: Buffered, fallbacks: 0, full: {queue: 3}}
`), "default/chat")
	if p.FailOpen || p.Picker.Body != model.BodyBuffered {
		t.Errorf("fail open %v, body %s; want false, %s", p.FailOpen, p.Picker.Body, model.BodyBuffered)
	}
	s := p.Settings
	if s.Strategy != "round-robin" || s.Fallbacks != 0 || s.FullQueue != 3 {
		t.Errorf(`settings %+v, want Strategy "round-robin", Fallbacks 0, FullQueue 3`, s)
	}
}

func TestPoolPolicy_PrefixDecidesWhetherPromptsAreRead(t *testing.T) {
	for spec, want := range map[string]struct {
		body          model.BodyMode
		prefix, every bool
		unused        bool // a finding reports the field prefix
	}{
		"strategy: load":                         {model.BodyBuffered, true, false, false},
		"prefix: true":                           {model.BodyBuffered, true, false, false},
		"prefix: false":                          {model.BodyNone, false, false, false},
		"prefix: false, body: Buffered":          {model.BodyBuffered, false, true, false},
		"strategy: random":                       {model.BodyNone, false, false, false},
		"strategy: random, prefix: true":         {model.BodyNone, false, false, true},
		"strategy: least-request, prefix: false": {model.BodyNone, false, false, false},
	} {
		p := pool(t,
			world(t, chatPool+"\n---\nkind: PoolPolicy\nmetadata: {name: p}\nspec: {targetRef: {name: chat}, picker: {"+
				spec+"}}\n"), "default/chat")
		reported := slices.ContainsFunc(p.Findings,
			func(f report.Finding) bool { return f.Field == "spec.picker.prefix" })
		if p.Picker.Body != want.body || p.Settings.Prefix != want.prefix || p.Settings.EveryBody != want.every ||
			reported != want.unused {
			t.Errorf("%s: got body %s, settings %+v, findings %+v; want %+v",
				spec, p.Picker.Body, p.Settings, p.Findings, want)
		}
	}
}

func TestPoolPolicy_OldestWinsAndTheOtherIsConflicted(t *testing.T) {
	v := world(t, chatPool+`
---
kind: PoolPolicy
metadata: {name: a-young, creationTimestamp: "2026-01-02T00:00:00Z"}
spec: {targetRef: {name: chat}, picker: {strategy: random}}
---
kind: PoolPolicy
metadata: {name: b-old, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {targetRef: {name: chat}, picker: {strategy: round-robin}}
`)
	if s := pool(t, v, "default/chat").Settings.Strategy; s != "round-robin" {
		t.Errorf(`strategy %s is the younger policy's, want "round-robin"`, s)
	}
	rep, _ := inference.PolicyReport(v, direct{}, "default/a-young")
	if c := report.Find(rep.Conditions, "Accepted"); c == nil || c.Reason != "Conflicted" {
		t.Errorf("the policy that is not used has %+v, want Conflicted", rep.Conditions)
	}
	rep, _ = inference.PolicyReport(v, direct{}, "default/b-old")
	if c := report.Find(rep.Conditions, "Accepted"); c == nil || c.Status != report.True {
		t.Errorf("the policy in force has %+v, want Accepted True", rep.Conditions)
	}
}

func TestEndpointPickerRef_UsesTLSUnlessItsPortIsCleartext(t *testing.T) {
	v := world(t, `
kind: InferencePool
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: epp, port: {number: 9002}, failureMode: FailOpen}
---
kind: Service
metadata: {name: epp}
spec: {ports: [{name: grpc, port: 9002, appProtocol: http2}]}
`)
	p := pool(t, v, "default/chat")
	if !p.External || !p.FailOpen || p.Picker.Cluster.InAnyConfig().String() != "picker/default/epp/9002" ||
		p.Picker.Body != model.BodyDuplex || p.Picker.Pool.String() != "default/chat" || !p.Picker.Served {
		t.Errorf("picker %+v, want picker/default/epp/9002 with duplex bodies, for default/chat, that fails open",
			p.Picker)
	}
	if text := texts(p.Findings); !strings.Contains(text, "not verified") || !strings.Contains(text, "best effort") {
		t.Errorf("want findings that explain TLS and FailOpen, got %s", text)
	}
	h2c := "kubernetes.io/h2c"
	if !inference.Cleartext(&h2c) || inference.Cleartext(nil) {
		t.Error("only kubernetes.io/h2c means cleartext")
	}
}

func TestEndpointPickerRef_UnresolvedIsReportedAndKeepsTheFallback(t *testing.T) {
	for what, service := range map[string]string{
		"no Service": "",
		"no port 9002": `
---
kind: Service
metadata: {name: epp}
spec: {ports: [{port: 80}]}
`,
	} {
		p := pool(t, world(t, `
kind: InferencePool
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: epp, port: {number: 9002}}
`+service), "default/chat")
		if p.Resolved.Status != report.False || p.Resolved.Reason != "InvalidExtensionRef" ||
			!p.Picker.Cluster.IsZero() || p.FailOpen {
			t.Errorf("%s: got %+v, picker %+v; want InvalidExtensionRef, and none", what, p.Resolved, p.Picker)
		}
	}
}

const spillToBig = `
---
kind: PoolPolicy
metadata: {name: chat}
spec: {targetRef: {name: chat}, spill: [{name: big}]}
`

func TestPoolPolicy_SpillIsOneHopDeep(t *testing.T) {
	v := world(t, chatPool+"\n---\n"+bigPool+spillToBig+`
---
kind: PoolPolicy
metadata: {name: big}
spec: {targetRef: {name: big}, spill: [{name: chat}]}
`)
	p := pool(t, v, "default/chat")
	if !p.Picker.Spills || !slices.Equal(p.Picker.Spill, []string{"envoy://hops/hop.default.pool.big"}) ||
		p.Last.String() != "last/pool/default/chat" {
		t.Fatalf("picker %+v, last %s; want a spill to big, and last/pool/default/chat", p.Picker, p.Last)
	}
	behind := p.Spill[0].Backends
	if len(behind) != 1 || behind[0].Cluster.String() != "last/pool/default/big" || behind[0].Picker.Spills ||
		behind[0].Picker.Spill != nil {
		t.Errorf("behind the hop: got %+v, want last/pool/default/big without a spill", behind)
	}
	res := inference.Backends{Tables: direct{}}.Resolve(v, p.Ref, 0)
	if got, want := names(res.Clusters), []string{
		"last/pool/default/big", "penstock-picker", "pool/default/chat",
	}; !slices.Equal(got, want) {
		t.Errorf("clusters %v, want %v", got, want)
	}
}

func TestPoolPolicy_SpillOfH2CAndExternalPickersGoesThroughTheirOwnHop(t *testing.T) {
	v := world(t, `
kind: InferencePool
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}]
  appProtocol: kubernetes.io/h2c
---
`+bigPool+spillToBig)
	p := pool(t, v, "default/chat")
	if !p.ViaHops() || p.OwnHop().String() != "hop.default.pool.chat" {
		t.Fatalf("via hops %v, own %s; want true, hop.default.pool.chat", p.ViaHops(), p.OwnHop())
	}
	// The cluster of hops has another name than the pool's cluster. Otherwise, while a pool gets or
	// loses hops, a request without a pick could reach a cluster that requires a pick.
	if p.Cluster.String() != "hops/pool/default/chat" || p.Last.String() != "last/pool/default/chat" {
		t.Errorf(`clusters %s and %s, want "hops/pool/default/chat" and "last/pool/default/chat"`, p.Cluster, p.Last)
	}
	res := inference.Backends{Tables: direct{}}.Resolve(v, p.Ref, 0)
	if !res.Targets[0].Hops || res.Targets[0].Picker != nil {
		t.Errorf("on the edge of a pool of hops: got %+v, want hops, and no picker", res.Targets[0])
	}
	if got, want := names(res.Hops),
		[]string{"hop.default.pool.big", "hop.default.pool.chat"}; !slices.Equal(got, want) {
		t.Errorf("hops %v, want %v", got, want)
	}
}

func TestInferencePool_LostPickIsRepeatedBehindItsOwnHop(t *testing.T) {
	policy := func(spec string) string {
		return "\n---\nkind: PoolPolicy\nmetadata: {name: chat}\nspec: {targetRef: {name: chat}, " + spec + "}\n"
	}
	const closed, h2c = "picker: {failureMode: FailClose, body: Buffered}", " (whose servers speak h2c)"
	for spec, again := range map[string]bool{
		closed:       true,
		closed + h2c: true,
		"picker: {failureMode: FailOpen, body: Buffered}": false,
		"picker: {failureMode: FailClose, prefix: false}": false, // Envoy itself repeats the call to the picker
		"picker: {failureMode: FailClose}":                true,  // the picker reads prompts
		closed + ", spill: [{name: big}]":                 false, // the request spills to the other pool
		closed + ", spill: [{name: nowhere}]":             true,
	} {
		spec, speaksH2C := strings.CutSuffix(spec, h2c)
		chat := chatPool
		if speaksH2C {
			chat = strings.Replace(chat, "spec:", "spec:\n  appProtocol: kubernetes.io/h2c", 1)
		}
		v := world(t, chat+"\n---\n"+bigPool+policy(spec))
		p := pool(t, v, "default/chat")
		res := inference.Backends{Tables: direct{}}.Resolve(v, p.Ref, 0)
		has := slices.Contains(res.Hops, p.OwnHop()) && slices.Contains(names(res.Clusters), "last/pool/default/chat")
		if p.PicksAgain() != again || has != again {
			t.Errorf("%s: picks again %t, with hops %v and clusters %v; want %t, and its own hop if true",
				spec, p.PicksAgain(), res.Hops, res.Clusters, again)
		}
		hop, ok := inference.Hop(v, p.OwnHop())
		if again &&
			(!ok || len(hop.Backends) != 1 || hop.Backends[0].Cluster.String() != "last/pool/default/chat" ||
				!hop.Backends[0].Picker.Last) {
			t.Errorf("%s: behind the hop %+v, want last/pool/default/chat, picked last", spec, hop)
		}
	}
}

func TestPoolPolicy_InvalidSpillTargetsAreReportedAndTheOthersStay(t *testing.T) {
	far := `
---
kind: InferencePool
metadata: {name: far, namespace: other}
spec: {selector: {matchLabels: {app: far}}, targetPorts: [{number: 8000}]}
---
kind: PoolPolicy
metadata: {name: chat}
spec: {targetRef: {name: chat}, spill: [{name: chat}, {name: nowhere}, {name: far, namespace: other}, {name: big},
  {kind: InferencePoolImport, name: drained}]}
---
kind: InferencePoolImport
metadata: {name: drained}
status:
  clusters:
  - {name: a, routingMode: ParentMode, weight: 0, parents: [{service: [{addresses: [192.0.2.9],
      ports: [{number: 80}]}]}]}
`
	p := pool(t, world(t, chatPool+"\n---\n"+bigPool+far), "default/chat")
	if len(p.Spill) != 1 || p.Spill[0].Target != "InferencePool default/big" {
		t.Errorf("spill %+v, want big alone", p.Spill)
	}
	text := texts(p.Findings)
	for _, want := range []string{"spec.spill[0]: a pool cannot spill to itself",
		"spec.spill[1]: there is no usable InferencePool default/nowhere", "spec.spill[2]: no ReferenceGrant",
		"spec.spill[4]: InferencePoolImport default/drained has no cluster that takes requests; see its conditions"} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in:\n%s", want, text)
		}
	}
	p = pool(t, world(t, chatPool+"\n---\n"+bigPool+far+`
---
kind: ReferenceGrant
metadata: {name: g, namespace: other}
spec:
  from: [{group: penstock.dev, kind: PoolPolicy, namespace: default}]
  to: [{group: inference.networking.k8s.io, kind: InferencePool}]
`), "default/chat")
	if len(p.Spill) != 2 || p.Spill[0].Hop.String() != "hop.other.pool.far" {
		t.Errorf("with a grant: got %+v, want 2, other/far first", p.Spill)
	}
}

func TestModelServers_AreMembersBesideReadyPodsAtEachPort(t *testing.T) {
	v := world(t, chatPool+`
---
kind: Pod
metadata: {name: ready, labels: {app: chat}}
status: {podIP: 10.0.0.1, conditions: [{type: Ready, status: "True"}]}
---
kind: Pod
metadata: {name: not-ready, labels: {app: chat}}
status: {podIP: 10.0.0.2, conditions: [{type: Ready, status: "False"}]}
---
kind: Pod
metadata: {name: ending, labels: {app: chat}, deletionTimestamp: "2026-01-01T00:00:00Z"}
status: {podIP: 10.0.0.3, conditions: [{type: Ready, status: "False"}]}
---
kind: Pod
metadata: {name: other, labels: {app: other}}
status: {podIP: 10.0.0.4}
---
kind: Host
metadata: {name: gpu.example}
Addresses: [10.0.1.1]
---
kind: ModelServers
metadata: {name: ms, labels: {app: chat}}
spec:
  servers:
  - {address: GPU.example, ports: [9000]}
  - {address: 10.0.1.2, labels: {app: other}}
  - {address: 10.0.1.3, draining: true, ports: [9001]}
`)
	var got []string
	for _, m := range inference.Members(v, pool(t, v, "default/chat")) {
		text := m.Address.String() + " " + m.Pod
		if m.Draining {
			text += " draining"
		}
		got = append(got, text)
	}
	want := []string{
		"10.0.0.1:8000 ready", "10.0.0.1:8001 ready", "10.0.0.3:8000 ending draining", "10.0.0.3:8001 ending draining",
		"10.0.1.1:9000 ms/gpu.example", "10.0.1.3:9001 ms/10.0.1.3 draining",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
	}
}

func TestInferencePool_ReportsMissingRoutesAndEndpoints(t *testing.T) {
	p := pool(t, world(t, chatPool), "default/chat")
	gw := report.Ref{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: "default", Name: "gw"}
	rep := inference.PoolReport(p, nil, false, nil)
	if text := texts(rep.Findings); !strings.Contains(text, "names this pool") ||
		!strings.Contains(text, "no ready Pod") {
		t.Errorf(`an unused, empty pool has: %s, want a text with "names this pool" and a text with "no ready Pod"`,
			text)
	}
	if serving := report.Find(rep.Conditions, inference.ConditionServing); serving == nil ||
		serving.Status != report.False {
		t.Errorf("an empty pool has conditions %+v, want %s False", rep.Conditions, inference.ConditionServing)
	}
	rep = inference.PoolReport(p, []report.Ref{gw}, false, make([]model.Member, 1))
	if len(rep.Findings)+len(rep.Conditions) != 0 || len(rep.Parents) != 1 || rep.Parents[0].Ref.Name != "gw" ||
		len(rep.Parents[0].Conditions) != 2 {
		t.Errorf("a pool in use has %+v, want the parent gw alone, with 2 conditions", rep)
	}
}

func TestInferencePool_UnknownEngineOfItsServersIsReportedOnce(t *testing.T) {
	servers := func(label, value string) (out []model.Member) {
		for _, address := range []string{"10.0.0.1:8000", "10.0.0.1:8001", "10.0.0.2:8000", "10.0.0.3:8000"} {
			at := netip.MustParseAddrPort(address)
			out = append(out,
				model.Member{Address: at, Pod: "pod-" + at.Addr().String(),
					Labels: map[string]string{"app": "chat", label: value}})
		}
		return out
	}
	const policy = "\n---\nkind: PoolPolicy\nmetadata: {name: p}\nspec: {targetRef: {name: chat}, picker: "
	const first, second = "llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type"
	for name, tt := range map[string]struct{ policy, label, value, want string }{
		"mistyped": {"", first, "vlm",
			`Pod pod-10.0.0.1 has the label llm-d.ai/engine-type: "vlm", which is no known engine: its metrics are ` +
				`read as metrics of vllm; 2 more have an unknown engine` +
				"; write vllm, sglang, trtllm-serve, triton-tensorrt-llm, llamacpp or triton in the label, or remove " +
				"it and set picker.metrics in a PoolPolicy"},
		"another case": {"", first, "vLLM",
			`: "vLLM", which is no known engine: its metrics are read as metrics of vllm; 2 more have an unknown ` +
				`engine; write vllm in the label, in lower case`},
		"a long one's case": {"", second, "TRTLLM-Serve", "; write trtllm-serve in the label, in lower case"},
		"the pool's engine": {policy + "{metrics: {engine: sglang}}}", second, "tgi",
			`Pod pod-10.0.0.1 has the label inference.networking.k8s.io/engine-type: "tgi", which is no known ` +
				`engine: its metrics are read as metrics of sglang; 2 more`},
		"known":                  {"", second, "triton", ""},
		"no label":               {"", "x", "y", ""},
		"no metrics are read":    {policy + "{strategy: random}}", first, "vlm", ""},
		"a threshold reads them": {policy + "{strategy: random, full: {queue: 1}}}", first, "vlm", `"vlm"`},
	} {
		p := pool(t, world(t, chatPool+tt.policy), "default/chat")
		var found []string
		for _, f := range inference.PoolReport(p, nil, true, servers(tt.label, tt.value)).Findings {
			if strings.Contains(f.Problem, "engine") {
				found = append(found, f.Problem+"; "+f.Fix)
			}
		}
		if text := strings.Join(found, "\n"); !strings.Contains(text, tt.want) || (text == "") != (tt.want == "") ||
			len(found) > 1 {
			t.Errorf("%s: got %q, want %q", name, text, tt.want)
		}
	}
}
