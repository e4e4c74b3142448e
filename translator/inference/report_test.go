package inference_test

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/inference"
)

// On Kubernetes users see conditions and no findings: an error that is in no condition is lost.
func TestCondition_NamesWhatHasNoEffect(t *testing.T) {
	v := world(t, chatPool+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {name: chat}, spill: [{name: nowhere}, {kind: InferencePoolImport, name: elsewhere, namespace: other}]}
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
	is := func(what string, rep report.Report, status, reason string, words ...string) {
		t.Helper()
		c := report.Find(rep.Conditions, "ResolvedRefs")
		if c == nil || c.Status != status || c.Reason != reason {
			t.Errorf("%s: %+v", what, rep.Conditions)
			return
		}
		for _, w := range words {
			if !strings.Contains(c.Message, w) {
				t.Errorf("%s: %q does not contain %q", what, c.Message, w)
			}
		}
	}
	rep, _ := inference.PolicyReport(v, direct{}, "default/p")
	is("a policy", rep, report.False, "InvalidSpillTarget", "spec.spill[0]: there is no usable InferencePool default/nowhere; create it", "spec.spill[1]: no ReferenceGrant")
	rep, _ = inference.PolicyReport(v, direct{}, "default/fine")
	is("a policy without mistakes", rep, report.True, "ResolvedRefs")
	imp, _ := inference.Import(v, "default/far")
	rep = inference.ImportReport(imp, nil, false)
	is("an import", rep, report.False, "InvalidCluster", `"ten" is not an IP address`)
	rep, _ = inference.ServersReport(v, "default/names")
	is("model servers", rep, report.False, "AddressNotFound", "spec.servers[1].address: host name not-known.example")
	rep, _ = inference.ServersReport(v, "default/addresses")
	is("model servers without mistakes", rep, report.True, "ResolvedRefs")
}
