package inference_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

func TestPoolPolicy_OfOneExportingClusterPrecedesTheImports(t *testing.T) {
	v, imp := imported(t, llmImport+westHost+"\n---\n"+bigPool+`
---
kind: PoolPolicy
metadata: {name: whole}
spec: {targetRef: {kind: InferencePoolImport, name: llm}, remote: {podCIDRs: [10.8.0.0/16]}}
---
kind: PoolPolicy
metadata: {name: east}
spec: {targetRef: {kind: InferencePoolImport, name: llm-east}, remote: {podCIDRs: [10.9.0.0/16]},
  spill: [{name: big}, {name: nowhere}]}
---
kind: PoolPolicy
metadata: {name: second}
spec: {targetRef: {kind: InferencePoolImport, name: llm-east}}
---
kind: PoolPolicy
metadata: {name: south}
spec: {targetRef: {kind: InferencePoolImport, name: llm-south}}
`)
	if p := imp.Members[0].Pool; fmt.Sprint(p.Relay.Within) != "[[10.9.0.0/16] [10.1.0.0/16]]" || len(p.Spill) != 1 {
		t.Errorf("ranges %v, spill %+v; want 10.9.0.0/16 and 10.1.0.0/16, and one", p.Relay.Within, p.Spill)
	}
	for name, want := range map[string]string{"whole": "Accepted", "east": "Accepted", "second": "Conflicted",
		"south": "TargetNotFound"} {
		rep, ok := inference.PolicyReport(v, direct{}, "default/"+name)
		if !ok || rep.Conditions[0].Reason != want {
			t.Errorf("%s: %+v, want reason %s", name, rep.Conditions, want)
		}
		if name == "east" && (len(rep.Conditions) != 2 || rep.Conditions[1].Reason != "InvalidSpillTarget") {
			t.Errorf("got %+v, want InvalidSpillTarget: the target does not exist", rep.Conditions)
		}
	}
}

func TestBackendTLSPolicy_OfOneExportingClusterByItsName(t *testing.T) {
	policy := func(name, target, section string) string {
		return `
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: ` + name + `}
spec:
  targetRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: ` + target + section + `}]
  validation: {hostname: ` + name + `.example, wellKnownCACertificates: System}
`
	}
	v, _ := imported(t, llmImport+westHost+policy("whole", "llm", "")+policy("by-name", "llm-east", "")+
		policy("by-section", "llm", ", sectionName: west-2"))
	for cluster, want := range map[model.ClusterID]string{
		model.ImportCluster("default", "llm", "east"):   "by-name",
		model.ParentCluster("default", "llm", "west-2"): "by-section",
		model.ParentCluster("default", "llm", "south"):  "whole",
	} {
		if got := gatewayapi.BackendPolicy(v, cluster); got == nil || got.Policy.Name != want {
			t.Errorf("%s: policy %+v, want %s", cluster, got, want)
		}
	}
	for _, name := range []string{"whole", "by-name", "by-section"} {
		if rep, _ := gatewayapi.PolicyReport(v, "default/"+name, direct{}); len(rep.Findings) > 0 {
			t.Errorf("%s: findings %s, want none", name, texts(rep.Findings))
		}
	}
}

func TestInferencePoolImport_EachServiceIsSpokenToAsItsOwnPortRequires(t *testing.T) {
	const mixed = `
kind: InferencePoolImport
metadata: {name: llm}
status:
  clusters:
  - name: west
    routingMode: ParentMode
    parents:
    - service: [{addresses: [192.0.2.1], ports: [{number: 443, appProtocol: https}]}]
    - service: [{addresses: [192.0.2.2], ports: [{number: 80}]}]
  - name: east
    routingMode: EndpointMode
    targetPortNumber: 8000
    podCIDRs: [10.1.0.0/16]
    endpointPicker:
      service:
      - {addresses: [192.0.2.3], ports: [{number: 9002}]}
      - {addresses: [192.0.2.4, 192.0.2.3], ports: [{number: 9002, appProtocol: kubernetes.io/h2c}]}
`
	_, imp := imported(t, mixed)
	want := map[string]bool{"192.0.2.1:443": false, "192.0.2.2:80": true, "192.0.2.3:9002": false,
		"192.0.2.4:9002": true}
	for _, a := range slices.Concat(imp.Members[0].Pool.Relay.Pickers, imp.Members[1].Parents) {
		if cleartext, ok := want[a.Addr.String()]; !ok || cleartext != a.Cleartext {
			t.Errorf("%s in cleartext: %t, want %t", a.Addr, a.Cleartext, want[a.Addr.String()])
		}
		delete(want, a.Addr.String())
	}
	if len(want) > 0 {
		t.Errorf("missing: %v, want none", want)
	}
	text := texts(inference.Exposed(imp))
	for _, want := range []string{
		"status.clusters[0].parents: cluster west: requests, with their prompts, are sent to its gateways in " +
			"cleartext; set appProtocol: https on the service's port, or write a BackendTLSPolicy for " +
			"InferencePoolImport default/llm with sectionName west",
		"status.clusters[0].parents: cluster west: requests are sent to its gateways over TLS, and the certificate " +
			"is not verified",
		"status.clusters[1].endpointPicker.service: cluster east: requests, with their prompts, are sent to its " +
			"picker in cleartext; leave appProtocol: kubernetes.io/h2c out",
		"status.clusters[1].endpointPicker.service: cluster east: requests are sent to its picker over TLS, and the " +
			"certificate is not verified; write a BackendTLSPolicy for InferencePoolImport default/llm with " +
			"sectionName east.picker",
		"status.clusters[1]: cluster east: requests, with their prompts, are sent to its model servers in cleartext; " +
			"write a BackendTLSPolicy",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no finding %q in\n%s", want, text)
		}
	}
	used := inference.ImportReport(imp, nil, []report.Ref{{Kind: "Gateway", Name: "gw"}}, false)
	spilledTo, unused := inference.ImportReport(imp, nil, nil, true), inference.ImportReport(imp, nil, nil, false)
	if !strings.Contains(texts(used.Findings), text) || !strings.Contains(texts(spilledTo.Findings), text) ||
		strings.Contains(texts(unused.Findings), "in cleartext") {
		t.Errorf("reported where requests are sent:\n%s\nwhere a pool spills:\n%s\nwhere none is, want nothing in "+
			"cleartext:\n%s", texts(used.Findings), texts(spilledTo.Findings), texts(unused.Findings))
	}
}

const pickerPolicy = `
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: secured}
spec:
  targetRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: llm, sectionName: %s}]
  validation: {hostname: epp.example, %s}
`

func TestBackendTLSPolicy_ReachesThePickerOfAnImport(t *testing.T) {
	picker, pods := model.ImportPickerCluster("default", "llm", "east"), model.ImportCluster("default", "llm", "east")
	for section, both := range map[string]bool{"east": true, "east.picker": false} {
		v, imp := imported(t, llmImport+westHost+fmt.Sprintf(pickerPolicy, section, "wellKnownCACertificates: System"))
		if p := gatewayapi.BackendPolicy(v, picker); p == nil || p.TLS.SNI != "epp.example" {
			t.Errorf("%s: the picker's policy is %+v, want one for epp.example", section, p)
		}
		if p := gatewayapi.BackendPolicy(v, pods); (p != nil) != both {
			t.Errorf("%s: the policy of the pods is %+v, want one: %t", section, p, both)
		}
		if text := texts(inference.Exposed(imp)); strings.Contains(text, "not verified") ||
			strings.Contains(text, "its model servers in cleartext") == both {
			t.Errorf("%s: findings %s, want servers in cleartext: %t, and no picker that is not verified",
				section, text, !both)
		}
		if rep, _ := gatewayapi.PolicyReport(v, "default/secured", direct{}); len(rep.Findings) > 0 {
			t.Errorf("%s: got findings %s, want none", section, texts(rep.Findings))
		}
	}
	_, imp := imported(t,
		llmImport+westHost+fmt.Sprintf(pickerPolicy, "east.picker",
			"caCertificateRefs: [{group: \"\", kind: ConfigMap, name: missing}]"))
	if m := imp.Members[0]; m.Pool != nil || !strings.Contains(m.Problem,
		"BackendTLSPolicy default/secured for its picker has no valid CA certificate") {
		t.Errorf("without a CA to trust: got %q, want that the policy has no valid CA certificate", m.Problem)
	}
}

func TestInferencePoolImport_EachPickerServiceDecidesAboutTLSByItsOwnPort(t *testing.T) {
	_, imp := imported(t, strings.Replace(llmImport, `{service: [{addresses: [192.0.2.1], ports: [{number: 9002}]}]}`,
		`{service: [{addresses: [192.0.2.1], ports: [{number: 9002}]}, `+
			`{addresses: [192.0.2.2], ports: [{number: 9002, appProtocol: kubernetes.io/h2c}]}, `+
			`{addresses: [192.0.2.3], ports: [{number: 9002, appProtocol: http2}]}]}`, 1)+westHost)
	got := fmt.Sprint(imp.Members[0].Pool.Relay.Pickers)
	if want := "[{192.0.2.1:9002 false} {192.0.2.2:9002 true} {192.0.2.3:9002 false}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPoolPolicy_RemoteRangesNarrowWhatMayBeDialled(t *testing.T) {
	policy := func(remote string) string {
		return westHost + `
---
kind: PoolPolicy
metadata: {name: narrow}
spec: {targetRef: {kind: InferencePoolImport, name: llm}, remote: ` + remote + `}
`
	}
	two := strings.Replace(llmImport, `{service: [{addresses: [192.0.2.1], ports`,
		`{service: [{addresses: [192.0.2.1, 192.0.3.1], ports`, 1)
	_, imp := imported(t, two+policy("{addresses: [192.0.3.0/24, 198.51.100.0/24]}"))
	if p := imp.Members[0].Pool; len(p.Relay.Pickers) != 1 || p.Relay.Pickers[0].Addr.String() != "192.0.3.1:9002" {
		t.Errorf("pickers %v, want 192.0.3.1:9002 alone", p.Relay.Pickers)
	}
	// The gateway's name resolves to 192.0.2.80.
	if m := imp.Members[1]; len(m.Parents) != 0 || m.Problem == "" {
		t.Errorf("gateways %v, want none, and a problem", m.Parents)
	}
	if text := texts(imp.Findings); strings.Count(text,
		"is outside spec.remote.addresses of PoolPolicy default/narrow") != 2 {
		t.Errorf("findings: got %s, want 2 of addresses outside spec.remote.addresses", text)
	}
	declared := strings.Replace(llmImport, "podCIDRs: [10.1.0.0/16]",
		"podCIDRs: [10.1.0.0/16, 10.2.0.0/16]\n    endpoints: [{address: 10.1.0.5}, {address: 10.2.0.5}, {address: "+
			"10.3.0.5}]", 1)
	_, imp = imported(t, declared+policy("{podCIDRs: [10.2.0.0/15]}"))
	// The policy excludes one pod, and the exporter's ranges another.
	if got := fmt.Sprint(imp.Members[0].Pool.Remote); got != "[10.2.0.5:8000]" {
		t.Errorf(`declared pods %s, want "[10.2.0.5:8000]"`, got)
	}
	if text := texts(imp.Findings); !strings.Contains(text,
		"address 10.1.0.5 is outside spec.remote.podCIDRs of PoolPolicy default/narrow") ||
		!strings.Contains(text, "address 10.3.0.5 is outside podCIDRs of the exporting cluster") {
		t.Errorf("findings: got %s, want 10.1.0.5 outside the policy, and 10.3.0.5 outside the exporter's range", text)
	}
	if obj, ok := gatewayapi.Imported(world(t, two+policy("{addresses: [192.0.3.0/24]}")), "default/llm"); !ok ||
		len(inference.Dialable(world(t, two+policy("{addresses: [192.0.3.0/24]}")), obj, &obj.Status.Clusters[1])) !=
			1 {
		t.Error("Envoy calls a picker outside the ranges")
	}
}
