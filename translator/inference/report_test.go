package inference_test

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/inference"
)

// On Kubernetes, users see conditions but no findings, so each error must be in a condition.
func TestCondition_NamesWhatHasNoEffect(t *testing.T) {
	v := world(t, chatPool+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {name: chat}, spill: [{name: nowhere}, {kind: InferencePoolImport, name: elsewhere,
  namespace: other}]}
---
kind: PoolPolicy
metadata: {name: fine}
spec: {targetRef: {kind: InferencePoolImport, name: far}, spill: [{name: chat}]}
---
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: east
    routingMode: EndpointMode
    targetPortNumber: 8000
    endpoints: [{address: 10.0.0.1}, {address: ten}]
    endpointPicker: {service: [{addresses: [192.0.2.1], ports: [{number: 9002}]}]}
---
kind: ModelServers
metadata: {name: names}
spec: {servers: [{address: 192.0.2.2}, {address: not-known.example}]}
---
kind: Host
metadata: {name: not-known.example}
Error: no such host
---
kind: ModelServers
metadata: {name: addresses}
spec: {servers: [{address: 192.0.2.2}]}
`)
	check := func(what string, rep report.Report, status, reason string, words ...string) {
		t.Helper()
		c := report.Find(rep.Conditions, "ResolvedRefs")
		if c == nil || c.Status != status || c.Reason != reason {
			t.Errorf("%s: got %+v, want ResolvedRefs %s by %s", what, rep.Conditions, status, reason)
			return
		}
		for _, w := range words {
			if !strings.Contains(c.Message, w) {
				t.Errorf("%s: message %q, want %q in it", what, c.Message, w)
			}
		}
	}
	rep, _ := inference.PolicyReport(v, direct{}, "default/p")
	check("a policy", rep, report.False, "InvalidSpillTarget",
		"spec.spill[0]: there is no usable InferencePool default/nowhere; create it",
		"spec.spill[1]: no ReferenceGrant")
	rep, _ = inference.PolicyReport(v, direct{}, "default/fine")
	check("a policy without mistakes", rep, report.True, "ResolvedRefs")
	imp, _ := inference.Import(v, "default/far")
	rep = inference.ImportReport(imp, nil, nil, false)
	check("an import", rep, report.False, "InvalidCluster", `"ten" is not an IP address`)
	rep, _ = inference.ServersReport(v, "default/names")
	check("model servers", rep, report.False, "AddressNotFound", "spec.servers[1].address: host name not-known.example")
	rep, _ = inference.ServersReport(v, "default/addresses")
	check("model servers without mistakes", rep, report.True, "ResolvedRefs")
}

const everyField = "picker: {strategy: random, criticality: Critical, shedAfter: 1s, chwbl: {}, session: {}, " +
	"failureMode: FailClose, full: {queue: 5}, metrics: {path: /m}, fallbacks: 3, body: Buffered}, remote: " +
	"{podCIDRs: [10.0.0.0/8], maxGateways: 2}"

const withoutEffect = chatPool + "---" + bigPool + `  endpointPickerRef: {name: epp, port: {number: 9002}}
---
kind: Service
metadata: {name: epp}
spec: {ports: [{port: 9002, appProtocol: kubernetes.io/h2c}]}
---
kind: PoolPolicy
metadata: {name: external}
spec: {targetRef: {name: big}, ` + everyField + `}
---
kind: PoolPolicy
metadata: {name: own}
spec: {targetRef: {name: chat}, picker: {strategy: random, criticality: Sheddable, chwbl: {loadFactorPercent: 150},
  metrics: {path: /m}, kvEvents: {}}}
---
kind: InferencePool
metadata: {name: unshed}
spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: 8000}]}
---
kind: PoolPolicy
metadata: {name: unshed}
spec: {targetRef: {name: unshed}, picker: {criticality: Critical, shedAfter: 2s, prefix: false, kvEvents: {},
  headersTimeout: Learned}}
---
kind: InferencePool
metadata: {name: shadowed}
spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: 8000}]}
---
kind: PoolPolicy
metadata: {name: shadowed}
spec: {targetRef: {name: shadowed}, picker: {strategy: chwbl, shadow: load, kvEvents: {}, headersTimeout: Learned}}
---
kind: InferencePool
metadata: {name: hashed}
spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: 8000}]}
---
kind: PoolPolicy
metadata: {name: hashed}
spec: {targetRef: {name: hashed}, picker: {strategy: chwbl, kvEvents: {}, fallbacks: 0, headersTimeout: Learned}}
---` + llmImport + `
---
kind: PoolPolicy
metadata: {name: relayed}
spec: {targetRef: {kind: InferencePoolImport, name: llm-east}, ` + everyField + `}
---
kind: PoolPolicy
metadata: {name: parent}
spec: {targetRef: {kind: InferencePoolImport, name: llm-west-2}, picker: {strategy: load, fallbacks: 2},
  remote: {podCIDRs: [10.0.0.0/8], maxGateways: 2}}
---
kind: PoolPolicy
metadata: {name: whole}
spec: {targetRef: {kind: InferencePoolImport, name: llm}}
`

func TestPoolPolicy_FieldsWithoutEffectAreReported(t *testing.T) {
	v := world(t, withoutEffect)
	const all = "spec.picker.strategy: it and spec.picker.criticality, spec.picker.shedAfter, spec.picker.chwbl, " +
		"spec.picker.session, spec.picker.failureMode, spec.picker.full, spec.picker.metrics, spec.picker.fallbacks, " +
		"spec.picker.body have no effect: "
	for name, want := range map[string][]string{
		"external": {
			all +
				"InferencePool default/big has an external picker, which decides alone; remove them, or remove " +
				"endpointPickerRef", "spec.remote.podCIDRs: it and spec.remote.maxGateways have no effect: it is for " +
				"InferencePoolImports",
		},
		"own": {"spec.picker.criticality: it has no effect: strategy random does not read it",
			"spec.picker.chwbl: it has no effect: strategy random does not read it",
			"spec.picker.metrics: it has no effect: neither strategy random",
			"spec.picker.kvEvents: it has no effect: strategy random reads no prompts; remove it"},
		"unshed": {"spec.picker.shedAfter: it has no effect: requests of criticality Critical are not shed",
			"spec.picker.kvEvents: it has no effect: strategy load reads no prompts",
			"spec.picker.headersTimeout: it has no effect: strategy load reads no bodies, which show that an answer " +
				"is streamed"},
		"shadowed": {},
		"hashed": {"spec.picker.kvEvents: it has no effect: strategy chwbl compares no prompts with what servers " +
			"have cached; remove it",
			"spec.picker.headersTimeout: it has no effect: a pick names no further server"},
		"relayed": {all + "the picker of the exporting cluster decides for InferencePoolImport default/llm",
			"spec.remote.maxGateways: it has no effect: no exporting cluster of InferencePoolImport default/llm is " +
				"reached through gateways"},
		"parent": {"spec.remote.podCIDRs: it has no effect: no exporting cluster"},
		"whole": {
			"spec: the policy has no effect: each exporting cluster of InferencePoolImport default/llm has a " +
				"PoolPolicy of its own",
		},
	} {
		rep, _ := inference.PolicyReport(v, direct{}, "default/"+name)
		if len(rep.Findings) != len(want) || rep.Conditions[0].Status != report.True ||
			len(rep.Conditions) > 1 && rep.Conditions[1].Status != report.True {
			t.Errorf("%s: got %+v, want True, and %d findings, got\n%s",
				name, rep.Conditions, len(want), texts(rep.Findings))
		}
		for _, w := range want {
			if text := texts(rep.Findings); !strings.Contains(text, w) {
				t.Errorf("%s: want the finding %q, got\n%s", name, w, text)
			}
		}
	}
}

// A policy applies to a pool of its own namespace, even if its target names another namespace.
func TestPoolPolicy_NamespaceOfItsTargetIsReported(t *testing.T) {
	v := world(t, chatPool+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {name: chat, namespace: other}}
---
kind: PoolPolicy
metadata: {name: q}
spec: {targetRef: {name: chat, namespace: default}}
`)
	rep, _ := inference.PolicyReport(v, direct{}, "default/p")
	const want = "spec.targetRef.namespace: it has no effect: the policy is for InferencePool default/chat; remove " +
		"it, and write the policy in namespace other"
	if len(rep.Findings) == 0 || !strings.Contains(rep.Findings[0].String(), want) {
		t.Errorf("findings %v, want %s", rep.Findings, want)
	}
	rep, _ = inference.PolicyReport(v, direct{}, "default/q")
	for _, f := range rep.Findings {
		if f.Field == "spec.targetRef.namespace" {
			t.Errorf("its own namespace is reported, want no such finding: %v", f)
		}
	}
}
