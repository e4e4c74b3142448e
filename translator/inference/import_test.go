package inference_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

const llmImport = `
kind: InferencePoolImport
metadata: {name: llm}
status:
  clusters:
  - name: west-2
    routingMode: ParentMode
    weight: 3
    parents: [{service: [{addresses: [gw.west.example], ports: [{number: 80}]}]}]
  - name: east
    routingMode: EndpointMode
    targetPortNumber: 8000
    podCIDRs: [10.1.0.0/16]
    endpointPicker: {service: [{addresses: [192.0.2.1], ports: [{number: 9002}]}]}
`

const westHost = `
---
kind: Host
metadata: {name: gw.west.example}
Addresses: [192.0.2.80]
`

func imported(t *testing.T, documents string) (*store.View, *model.Import) {
	t.Helper()
	v := world(t, documents)
	imp, ok := inference.Import(v, "default/llm")
	if !ok {
		t.Fatal("no import")
	}
	return v, imp
}

func resolve(v *store.View, name string) (clusters []string, shares []uint32, reason string) {
	res := inference.Backends{Tables: direct{}}.Resolve(v,
		report.Ref{Group: "inference.networking.x-k8s.io", Kind: "InferencePoolImport", Namespace: "default",
			Name: name}, 0)
	for _, t := range res.Targets {
		clusters, shares = append(clusters, t.Cluster.String()), append(shares, t.Share)
	}
	return clusters, shares, res.Reason
}

func TestInferencePoolImport_ClustersShareItsWeight(t *testing.T) {
	v, imp := imported(t, llmImport+westHost)
	if imp.Ready.Status != report.True {
		t.Errorf("ready: %+v, want Status %v", imp.Ready, report.True)
	}
	clusters, shares, _ := resolve(v, "llm")
	if !slices.Equal(clusters, []string{"last/import/default/llm/east", "last/parent/default/llm/west-2"}) ||
		!slices.Equal(shares, []uint32{1, 3}) {
		t.Errorf("clusters %v, shares %v", clusters, shares)
	}
}

func TestInferencePoolImport_NamePinsOneCluster(t *testing.T) {
	v, _ := imported(t, llmImport+westHost)
	if clusters, _, _ := resolve(v, "llm-west-2"); !slices.Equal(clusters, []string{"parent/default/llm/west-2"}) {
		t.Errorf("llm-west-2 goes to %v, want %v", clusters, []string{"parent/default/llm/west-2"})
	}
	if _, _, reason := resolve(v, "llm-south"); reason != "BackendNotFound" {
		t.Errorf("llm-south, which does not exist: %q", reason)
	}
	v, _ = imported(t, llmImport+westHost+`
---
kind: InferencePoolImport
metadata: {name: llm-east}
status: {clusters: [{name: c, routingMode: ParentMode, parents: [{service: [{addresses: [192.0.2.9],
  ports: [{number: 80}]}]}]}]}
`)
	if clusters, _, _ := resolve(v, "llm-east"); !slices.Equal(clusters, []string{"parent/default/llm-east/c"}) {
		t.Errorf("the import of exactly that name must win, got %v, want %v",
			clusters, []string{"parent/default/llm-east/c"})
	}
}

func TestEndpointMode_WithUnknownPodsOurPickerRelays(t *testing.T) {
	v, imp := imported(t, llmImport+westHost+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm}, remote: {podCIDRs: [10.0.0.0/8]}}
---
kind: Learned
metadata: {name: llm.east}
Endpoints: ["10.1.0.5:8000"]
`)
	p := imp.Members[0].Pool
	if p.External || p.Picker.Cluster != model.OurPicker || p.Picker.Pool.String() != "default/llm@east" ||
		p.Picker.Body != model.BodyBuffered {
		t.Errorf("picker %+v", p.Picker)
	}
	if p.Relay == nil || p.Relay.Pickers[0].Cleartext || fmt.Sprint(p.Relay.Within) != "[[10.0.0.0/8] [10.1.0.0/16]]" ||
		p.Relay.Pickers[0].Addr.String() != "192.0.2.1:9002" {
		t.Errorf("relay %+v", p.Relay)
	}
	if m := inference.Members(v, p); len(m) != 1 || m[0].Address.String() != "10.1.0.5:8000" {
		t.Errorf("what was learned is not a member: %+v", m)
	}
}

func TestEndpointMode_WithDeclaredPodsAsksTheRemotePickerDirectly(t *testing.T) {
	_, imp := imported(t,
		strings.Replace(llmImport, "podCIDRs: [10.1.0.0/16]",
			"endpoints: [{address: 10.1.0.2}, {address: 10.1.0.1}, {address: 10.1.0.3, draining: true}, {address: "+
				"nonsense}]", 1)+westHost)
	p := imp.Members[0].Pool
	if !p.External || p.Relay != nil || p.Picker.Cluster.InAnyConfig().String() != "import-picker/default/llm/east" ||
		p.Picker.Body != model.BodyDuplex {
		t.Errorf("picker %+v, relay %+v", p.Picker, p.Relay)
	}
	if len(p.Remote) != 2 || p.Remote[0].String() != "10.1.0.1:8000" {
		t.Errorf("endpoints %v", p.Remote)
	}
	if text := texts(imp.Findings); !strings.Contains(text,
		`status.clusters[1].endpoints[3].address: "nonsense" is not an IP address`) {
		t.Errorf("findings: %s", text)
	}
}

func TestInferencePoolImport_UnreachableClusterIsReportedAndTakesNoTraffic(t *testing.T) {
	v, imp := imported(t, llmImport) // the host name is not known
	if text := texts(imp.Findings); !strings.Contains(text,
		"status.clusters[0].parents: cluster west-2: no parent gateway has a known address") {
		t.Errorf("findings: %s", text)
	}
	if clusters, _, _ := resolve(v, "llm"); !slices.Equal(clusters, []string{"import/default/llm/east"}) {
		t.Errorf("clusters %v, want %v", clusters, []string{"import/default/llm/east"})
	}
	v, imp = imported(t, `
kind: InferencePoolImport
metadata: {name: llm}
status: {clusters: [{name: east, routingMode: EndpointMode, targetPortNumber: 8000}]}
`)
	if _, _, reason := resolve(v, "llm"); reason != "BackendNotFound" || imp.Ready.Reason != "NoUsableCluster" {
		t.Errorf("an import without any usable cluster: %q, %+v", reason, imp.Ready)
	}
}

func TestEndpointMode_WithoutPodCIDRsWarns(t *testing.T) {
	_, imp := imported(t, strings.Replace(llmImport, "podCIDRs: [10.1.0.0/16]", "podCIDRs: [10.1.0.0]", 1)+westHost)
	text := texts(imp.Findings)
	for _, want := range []string{`"10.1.0.0" is not an address range`, "names neither its pods nor their range"} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in %s", want, text)
		}
	}
}

func TestEndpointMode_LostPickIsRepeatedWhereNoPodIsKnown(t *testing.T) {
	for _, mode := range []string{"FailClose", "FailOpen"} {
		v, imp := imported(t,
			strings.Replace(llmImport, "targetPortNumber", "failureMode: "+mode+"\n    targetPortNumber", 1)+westHost)
		p := imp.Members[0].Pool
		if !p.PicksAgain() || p.Last.String() != "last/import/default/llm/east" || p.FailOpen != (mode == "FailOpen") {
			t.Errorf("%s: picks again %t, last %s, fails open %t", mode, p.PicksAgain(), p.Last, p.FailOpen)
		}
		if hop, ok := inference.Hop(v, p.OwnHop()); !ok || len(hop.Backends) != 1 || hop.Backends[0].Cluster != p.Last {
			t.Errorf("%s: behind the hop %+v", mode, hop)
		}
	}
}

func TestInferencePoolImport_SpillsAndIsSpilledTo(t *testing.T) {
	v, imp := imported(t, llmImport+westHost+"\n---\n"+bigPool+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm}, spill: [{name: big}]}
---
kind: PoolPolicy
metadata: {name: q}
spec: {targetRef: {name: big}, spill: [{kind: InferencePoolImport, name: llm-east}]}
`)
	if p := imp.Members[0].Pool; len(p.Spill) != 1 || p.Last.String() != "last/import/default/llm/east" ||
		p.OwnHop().String() != "hop.default.import.llm@east" {
		t.Errorf("spill %+v, last %s, own hop %s", p.Spill, p.Last, p.OwnHop())
	}
	if len(imp.Spill) != 1 || imp.Cluster.String() != "members/default/llm" ||
		strings.Contains(texts(imp.Findings), "do not spill") {
		t.Errorf("the whole import: cluster %s, spill %+v, findings %s", imp.Cluster, imp.Spill, texts(imp.Findings))
	}
	_, one := imported(t, llmImport[:strings.Index(llmImport, "  - name: east")]+westHost+"\n---\n"+bigPool+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm}, spill: [{name: big}]}
`)
	if text := texts(one.Findings); !one.Cluster.IsZero() ||
		!strings.Contains(text, "west-2 is reached through its gateway") {
		t.Errorf("no finding reports that ParentMode does not spill: cluster %s, %s", one.Cluster, text)
	}
	_, apart := imported(t, llmImport+westHost+"\n---\n"+bigPool+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm-east}, spill: [{name: big}]}
`)
	if text := texts(apart.Findings); len(apart.Spill) > 0 ||
		!strings.Contains(text, "PoolPolicy default/p spec.spill: it is for requests that name cluster east alone") {
		t.Errorf("a policy of one cluster: spill %+v, %s", apart.Spill, text)
	}
	hop, ok := inference.Hop(v, hopID(t, "hop.default.import.llm-east"))
	if !ok || len(hop.Backends) != 1 || hop.Backends[0].Cluster.String() != "last/import/default/llm/east" {
		t.Errorf("hop %+v", hop)
	}
	if hop, ok := inference.Hop(v, hopID(t, "hop.default.import.llm@east")); !ok || len(hop.Backends) != 1 ||
		hop.Backends[0].Cluster.String() != "last/import/default/llm/east" {
		t.Errorf("a cluster's own hop %+v", hop)
	}
	if _, ok := inference.Hop(v, hopID(t, "hop.default.import.llm@nowhere")); ok {
		t.Error("a hop to a cluster that the import does not have")
	}
	if hop, ok := inference.Hop(v, hopID(t, "hop.default.import.llm")); !ok || len(hop.Backends) != 1 ||
		hop.Backends[0].Cluster.String() != "last/members/default/llm" || len(hop.Backends[0].Members) != 2 ||
		len(hop.Behind) != 2 || hop.Behind[0].Hop.String() != "hop.default.import.llm@east" {
		t.Errorf("a hop to a whole import leads to the hops of its clusters: %+v", hop)
	}
	any := model.HopTo("InferencePoolImport", "default", "llm")
	any.Member = model.AnyMember
	if hop, ok := inference.Hop(v, any); !ok || len(hop.Backends) != 2 || len(hop.Behind) != 0 {
		t.Errorf("a hop to any cluster of an import has all of them: %+v", hop)
	}
	if _, ok := inference.Hop(v, hopID(t, "hop.default.pool.nowhere")); ok {
		t.Error("a hop to nothing")
	}
}

func TestInferencePoolImport_ClustersOfWeightZeroTakeNoShare(t *testing.T) {
	const two = `
kind: InferencePoolImport
metadata: {name: llm}
status:
  clusters:
  - {name: a, routingMode: ParentMode, weight: 0, parents: [{service: [{addresses: [192.0.2.9],
      ports: [{number: 80}]}]}]}
  - {name: b, routingMode: ParentMode, weight: 0}
`
	v, _ := imported(t, two) // b has no address, which is of no consequence
	clusters, shares, reason := resolve(v, "llm")
	if reason != "" || !slices.Equal(shares, []uint32{0, 0}) {
		t.Errorf("an import that counts as weight 0 must resolve without a share: clusters %v, shares %v, reason %q",
			clusters, shares, reason)
	}
	v, _ = imported(t,
		strings.Replace(two, "name: b, routingMode: ParentMode, weight: 0", "name: b, routingMode: ParentMode", 1))
	if _, _, reason := resolve(v, "llm"); reason != "BackendNotFound" {
		t.Errorf("the only cluster with a weight cannot be reached: reason %q", reason)
	}
}

func TestInferencePoolImport_ClusterThatIsNotReadyTakesNoNewRequest(t *testing.T) {
	notReady := strings.Replace(llmImport, "routingMode: EndpointMode", `routingMode: EndpointMode
    conditions: [{type: Ready, status: "False", reason: Draining, message: the exporter is being upgraded,
      lastTransitionTime: "2026-01-01T00:00:00Z"}]`, 1)
	v, imp := imported(t, notReady+westHost)
	clusters, shares, _ := resolve(v, "llm")
	if !slices.Equal(clusters, []string{"last/import/default/llm/east", "last/parent/default/llm/west-2"}) ||
		!slices.Equal(shares, []uint32{0, 3}) {
		t.Errorf("clusters %v, shares %v; its cluster must stay for the requests in flight", clusters, shares)
	}
	if _, shares, reason := resolve(v, "llm-east"); reason != "" || !slices.Equal(shares, []uint32{0}) {
		t.Errorf("pinned: shares %v, reason %q", shares, reason)
	}
	if _, ok := inference.Hop(v, hopID(t, "hop.default.import.llm-east")); ok {
		t.Error("a pool spills to it")
	}
	if text := texts(imp.Findings); !strings.Contains(text,
		"status.clusters[1].conditions: cluster east takes no new requests: its controller reports Ready=False, "+
			"reason Draining") {
		t.Errorf("findings: %s", text)
	}
	v, _ = imported(t, strings.Replace(notReady, `status: "False"`, `status: Unknown`, 1)+westHost)
	if _, shares, _ := resolve(v, "llm"); !slices.Equal(shares, []uint32{1, 3}) {
		t.Errorf("an exporter that is silent withdrew its cluster: shares %v, want %v", shares, []uint32{1, 3})
	}
}

func TestInferencePoolImport_WithheldByItsControllerTakesNoNewRequest(t *testing.T) {
	const declined = `{type: TYPE, status: "False", reason: Paused, message: "", ` +
		`lastTransitionTime: "2026-01-01T00:00:00Z"}`
	for _, c := range []struct {
		status string // before status.clusters
		shares []uint32
		field  string
	}{
		{"  conditions: [" + strings.Replace(declined, "TYPE", "Accepted", 1) + "]\n", []uint32{0, 0},
			"status.conditions"},
		{"  conditions: [" + strings.Replace(declined, "TYPE", "Ready", 1) + "]\n", []uint32{0, 0},
			"status.conditions"},
		{"  conditions: [" + strings.Replace(declined, "TYPE", "Other", 1) + "]\n", []uint32{1, 3}, ""},
		{"  controllers: [{name: example.net/c, exportingClusters: [{name: east}], conditions: [" +
			strings.Replace(declined, "TYPE", "Accepted", 1) + "]}]\n", []uint32{0, 3},
			"status.controllers[0].conditions"},
		{"  conditions: [" + strings.Replace(declined, "TYPE", "Ready", 1) + "]\n" +
			"  controllers: [{name: penstock.dev/multicluster-hub, exportingClusters: [{name: east}], conditions: [" +
			strings.Replace(declined, "TYPE", "Ready", 1) + "]}]\n", []uint32{1, 3}, ""},
		{"  controllers: [{name: example.net/c, conditions: [" +
			strings.Replace(declined, "TYPE", "Accepted", 1) + "]}]\n", []uint32{1, 3}, ""},
	} {
		v, imp := imported(t, strings.Replace(llmImport, "status:\n", "status:\n"+c.status, 1)+westHost)
		if _, shares, _ := resolve(v, "llm"); !slices.Equal(shares, c.shares) {
			t.Errorf("%s: shares %v, want %v", c.status, shares, c.shares)
		}
		text := texts(imp.Findings)
		if want := c.field +
			": cluster east takes no new requests: the controller of the import reports"; strings.Contains(text,
			want) != (c.field != "") {
			t.Errorf("%s: findings %s", c.status, text)
		}
		if c.shares[1] == 0 && (imp.Ready.Status != "False" || imp.Ready.Reason != "NoUsableCluster") {
			t.Errorf("%s: Ready is %+v", c.status, imp.Ready)
		}
	}
}

func TestInferencePoolImport_SpillsToASiblingExporter(t *testing.T) {
	both := strings.Replace(llmImport, `routingMode: ParentMode
    weight: 3
    parents: [{service: [{addresses: [gw.west.example], ports: [{number: 80}]}]}]`, `routingMode: EndpointMode
    targetPortNumber: 8000
    podCIDRs: [10.2.0.0/16]
    endpointPicker: {service: [{addresses: [192.0.2.2], ports: [{number: 9002}]}]}`, 1)
	_, imp := imported(t, both+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm}, spill: [{kind: InferencePoolImport, name: llm-west-2},
  {kind: InferencePoolImport, name: llm-east}]}
`)
	for i, want := range []string{"hop.default.import.llm-west-2", "hop.default.import.llm-east"} {
		p := imp.Members[i].Pool
		if len(p.Spill) != 1 || p.Spill[0].Hop.String() != want || !p.Picker.Spills ||
			p.Spill[0].Backends[0].Cluster == p.Last {
			t.Errorf("cluster %s spills to %+v, want %s", imp.Members[i].Name, p.Spill, want)
		}
	}
	if text := texts(imp.Findings); strings.Contains(text, "spill") {
		t.Errorf("findings: %s", text)
	}
	_, imp = imported(t, both+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm-east},
  spill: [{kind: InferencePoolImport, name: llm-east}, {kind: InferencePoolImport, name: llm}]}
`)
	if text := texts(imp.Findings); strings.Count(text, "a pool cannot spill to itself") != 2 {
		t.Errorf("findings: %s", text)
	}
}

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
		t.Errorf("ranges %v, spill %+v", p.Relay.Within, p.Spill)
	}
	for name, want := range map[string]string{"whole": "Accepted", "east": "Accepted", "second": "Conflicted",
		"south": "TargetNotFound"} {
		rep, ok := inference.PolicyReport(v, direct{}, "default/"+name)
		if !ok || rep.Conditions[0].Reason != want {
			t.Errorf("%s: %+v, want reason %s", name, rep.Conditions, want)
		}
		if name == "east" && (len(rep.Conditions) != 2 || rep.Conditions[1].Reason != "InvalidSpillTarget") {
			t.Errorf("a spill target that does not exist is not reported: %+v", rep.Conditions)
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
			t.Errorf("%s: findings %s", name, texts(rep.Findings))
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
			t.Errorf("%s in cleartext: %t", a.Addr, a.Cleartext)
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
		t.Errorf("reported where requests are sent:\n%s\nwhere a pool spills:\n%s\nwhere none is:\n%s",
			texts(used.Findings), texts(spilledTo.Findings), texts(unused.Findings))
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
			t.Errorf("%s: the picker's policy is %+v", section, p)
		}
		if p := gatewayapi.BackendPolicy(v, pods); (p != nil) != both {
			t.Errorf("%s: the policy of the pods is %+v", section, p)
		}
		if text := texts(inference.Exposed(imp)); strings.Contains(text, "not verified") ||
			strings.Contains(text, "its model servers in cleartext") == both {
			t.Errorf("%s: findings %s", section, text)
		}
		if rep, _ := gatewayapi.PolicyReport(v, "default/secured", direct{}); len(rep.Findings) > 0 {
			t.Errorf("%s: %s", section, texts(rep.Findings))
		}
	}
	_, imp := imported(t,
		llmImport+westHost+fmt.Sprintf(pickerPolicy, "east.picker",
			"caCertificateRefs: [{group: \"\", kind: ConfigMap, name: missing}]"))
	if m := imp.Members[0]; m.Pool != nil || !strings.Contains(m.Problem,
		"BackendTLSPolicy default/secured for its picker has no valid CA certificate") {
		t.Errorf("without a CA to trust the picker is asked: %q", m.Problem)
	}
}

func TestInferencePoolImport_ParentThatIsNotReadyTakesNoNewRequest(t *testing.T) {
	const draining = `conditions: [{type: Ready, status: "False", reason: Draining, message: m, ` +
		`lastTransitionTime: "2026-01-01T00:00:00Z"}], `
	two := strings.Replace(llmImport, `parents: [{service`,
		`parents: [{name: old, namespace: web, `+draining+
			`service: [{addresses: [192.0.2.81], ports: [{number: 80}]}]}, {service`, 1)
	_, imp := imported(t, two+westHost)
	if m := imp.Members[1]; len(m.Parents) != 1 || m.Parents[0].Addr.String() != "192.0.2.80:80" || m.Share != 3 {
		t.Errorf("%+v", m)
	}
	if text := texts(imp.Findings); !strings.Contains(text,
		"status.clusters[0].parents[0].conditions: cluster west-2: gateway web/old takes no new requests") {
		t.Errorf("findings: %s", text)
	}
	v, imp := imported(t, strings.Replace(llmImport, `parents: [{`, `parents: [{`+draining, 1)+westHost)
	if m := imp.Members[1]; m.Problem != "" || m.NotReady != "Draining" {
		t.Errorf("%+v", m)
	}
	if _, shares, _ := resolve(v, "llm"); !slices.Equal(shares, []uint32{1, 0}) {
		t.Errorf("shares %v; its cluster must stay for the requests in flight, want %v", shares, []uint32{1, 0})
	}
	_, imp = imported(t,
		strings.Replace(llmImport, `parents: [{`, `parents: [{`+strings.Replace(draining, `"False"`, "Unknown", 1), 1)+
			westHost)
	if m := imp.Members[1]; len(m.Parents) != 1 || m.Share != 3 {
		t.Errorf("a gateway whose state is not known: %+v", m)
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
		t.Errorf("pickers %v", p.Relay.Pickers)
	}
	if m := imp.Members[1]; len(m.Parents) != 0 || m.Problem == "" { // a name that resolves to 192.0.2.80
		t.Errorf("gateways %v", m.Parents)
	}
	if text := texts(imp.Findings); strings.Count(text,
		"is outside spec.remote.addresses of PoolPolicy default/narrow") != 2 {
		t.Errorf("findings: %s", text)
	}
	declared := strings.Replace(llmImport, "podCIDRs: [10.1.0.0/16]",
		"podCIDRs: [10.1.0.0/16, 10.2.0.0/16]\n    endpoints: [{address: 10.1.0.5}, {address: 10.2.0.5}, {address: "+
			"10.3.0.5}]", 1)
	_, imp = imported(t, declared+policy("{podCIDRs: [10.2.0.0/15]}"))
	// neither the policy's nor the exporter's exclusions
	if got := fmt.Sprint(imp.Members[0].Pool.Remote); got != "[10.2.0.5:8000]" {
		t.Errorf(`declared pods %s, want "[10.2.0.5:8000]"`, got)
	}
	if text := texts(imp.Findings); !strings.Contains(text,
		"address 10.1.0.5 is outside spec.remote.podCIDRs of PoolPolicy default/narrow") ||
		!strings.Contains(text, "address 10.3.0.5 is outside podCIDRs of the exporting cluster") {
		t.Errorf("findings: %s", text)
	}
	if obj, ok := gatewayapi.Imported(world(t, two+policy("{addresses: [192.0.3.0/24]}")), "default/llm"); !ok ||
		len(inference.Dialable(world(t, two+policy("{addresses: [192.0.3.0/24]}")), obj, &obj.Status.Clusters[1])) !=
			1 {
		t.Error("Envoy calls a picker outside the ranges")
	}
}

// A remote picker's changes to a request must not reach the spill target.
func TestInferencePoolImport_RelayedPoolThatSpillsIsBehindAHop(t *testing.T) {
	_, imp := imported(t, llmImport+westHost+`
---
kind: PoolPolicy
metadata: {name: spills}
spec: {targetRef: {kind: InferencePoolImport, name: llm-east}, spill: [{kind: InferencePoolImport, name: llm-west-2}]}
`)
	if p := imp.Members[0].Pool; p.Relay == nil || len(p.Spill) != 1 || !p.ViaHops() ||
		p.Cluster.Variant != model.HopsVariant {
		t.Errorf("%+v", p)
	}
}

// A member controls the length of its lists: findings about them are few.
func TestInferencePoolImport_FindingsAboutManyElementsAreFew(t *testing.T) {
	for what, list := range map[string]string{
		"endpoints": "endpoints: [" + strings.Repeat("{address: x}, ", 1000) + "]",
		"outside":   "endpoints: [" + strings.Repeat("{address: 169.254.169.254}, ", 1000) + "]",
		"pickers":   "podCIDRs: [10.1.0.0/16]",
	} {
		picker := "192.0.2.1"
		if what == "pickers" {
			picker = strings.Repeat("169.254.169.254, ", 64)
		}
		_, imp := imported(t, fmt.Sprintf(`
kind: InferencePoolImport
metadata: {name: llm}
status:
  clusters:
  - name: east
    routingMode: EndpointMode
    targetPortNumber: 8000
    %s
    endpointPicker: {service: [{addresses: [%s], ports: [{number: 9002}]}]}
`, list, picker))
		n := len(imp.Findings)
		if n < 2 || n > 20 || !slices.ContainsFunc(imp.Findings,
			func(f report.Finding) bool { return strings.Contains(f.Problem, "more elements") }) {
			t.Errorf("%s: %d findings: %v", what, n, imp.Findings[:min(n, 3)])
		}
	}
}

// A member controls the length of its texts: findings quote their beginning.
func TestInferencePoolImport_FindingsQuoteTheBeginningOfATextAlone(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for what, entry := range map[string]string{
		"podCIDRs": "routingMode: EndpointMode, targetPortNumber: 8000, podCIDRs: [" + long +
			"], endpointPicker: {service: [{addresses: [192.0.2.1], ports: [{number: 9002}]}]}",
		"endpoint": "routingMode: EndpointMode, targetPortNumber: 8000, endpoints: [{address: " + long +
			"}], endpointPicker: {service: [{addresses: [192.0.2.1], ports: [{number: 9002}]}]}",
		"picker": "routingMode: EndpointMode, targetPortNumber: 8000, podCIDRs: [10.1.0.0/16], endpointPicker: " +
			"{service: [{addresses: [" + long + "], ports: [{number: 9002}]}]}",
		"gateway": "routingMode: ParentMode, parents: [{name: " + long + ", namespace: " + long +
			", hostname: \"a b\", service: [{addresses: [192.0.2.1], ports: [{number: 80}]}]}]",
		"hostname": "routingMode: ParentMode, parents: [{hostname: " + long +
			", service: [{addresses: [192.0.2.1], ports: [{number: 80}]}]}]",
		"pickerPool": "routingMode: EndpointMode, targetPortNumber: 8000, podCIDRs: [10.1.0.0/16], " +
			"endpointPicker: {pool: " + long + ", service: [{addresses: [192.0.2.1], ports: [{number: 9002}]}]}",
	} {
		_, imp := imported(t,
			"\nkind: InferencePoolImport\nmetadata: {name: llm}\nstatus:\n  clusters:\n  - {name: east, "+entry+"}\n")
		for _, f := range imp.Findings {
			if len(f.String()) > 1000 {
				t.Errorf("%s: a finding of %d bytes: %.200s, want at most 1000", what, len(f.String()), f)
			}
		}
		if len(imp.Findings) == 0 {
			t.Errorf("%s: no finding", what)
		}
	}
}
