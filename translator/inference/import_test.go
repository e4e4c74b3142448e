package inference_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
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
		t.Errorf("clusters %v, shares %v; want east with 1 and west-2 with 3", clusters, shares)
	}
}

func TestInferencePoolImport_NamePinsOneCluster(t *testing.T) {
	v, _ := imported(t, llmImport+westHost)
	if clusters, _, _ := resolve(v, "llm-west-2"); !slices.Equal(clusters, []string{"parent/default/llm/west-2"}) {
		t.Errorf("llm-west-2 goes to %v, want %v", clusters, []string{"parent/default/llm/west-2"})
	}
	if _, _, reason := resolve(v, "llm-south"); reason != "BackendNotFound" {
		t.Errorf("llm-south, which does not exist: got %q, want BackendNotFound", reason)
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
		t.Errorf("picker %+v, want our own, for default/llm@east, that reads bodies", p.Picker)
	}
	if p.Relay == nil || p.Relay.Pickers[0].Cleartext || fmt.Sprint(p.Relay.Within) != "[[10.0.0.0/8] [10.1.0.0/16]]" ||
		p.Relay.Pickers[0].Addr.String() != "192.0.2.1:9002" {
		t.Errorf("relay %+v, want 192.0.2.1:9002 with TLS, within 10.0.0.0/8 and 10.1.0.0/16", p.Relay)
	}
	if m := inference.Members(v, p); len(m) != 1 || m[0].Address.String() != "10.1.0.5:8000" {
		t.Errorf("got members %+v, want the learned 10.1.0.5:8000", m)
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
		t.Errorf("picker %+v, relay %+v; want the import's picker with duplex bodies, and no relay", p.Picker, p.Relay)
	}
	if len(p.Remote) != 2 || p.Remote[0].String() != "10.1.0.1:8000" {
		t.Errorf("endpoints %v, want 2, 10.1.0.1:8000 first", p.Remote)
	}
	if text := texts(imp.Findings); !strings.Contains(text,
		`status.clusters[1].endpoints[3].address: "nonsense" is not an IP address`) {
		t.Errorf("findings: got %s, want that nonsense is not an IP address", text)
	}
}

func TestInferencePoolImport_UnreachableClusterIsReportedAndTakesNoTraffic(t *testing.T) {
	v, imp := imported(t, llmImport) // the host name is not resolved yet
	if text := texts(imp.Findings); !strings.Contains(text,
		"status.clusters[0].parents: cluster west-2: no parent gateway has a known address") {
		t.Errorf("findings: got %s, want that west-2 has no known address", text)
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
		t.Errorf("an import without any usable cluster: got %q, %+v; want BackendNotFound and NoUsableCluster",
			reason, imp.Ready)
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
			t.Errorf("%s: picks again %t, last %s, fails open %t; want true, last/import/default/llm/east, %t",
				mode, p.PicksAgain(), p.Last, p.FailOpen, mode == "FailOpen")
		}
		if hop, ok := inference.Hop(v, p.OwnHop()); !ok || len(hop.Backends) != 1 || hop.Backends[0].Cluster != p.Last {
			t.Errorf("%s: behind the hop %+v, want %s alone", mode, hop, p.Last)
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
		t.Errorf("spill %+v, last %s, own hop %s; want 1, the last variant and the hop of llm@east",
			p.Spill, p.Last, p.OwnHop())
	}
	if len(imp.Spill) != 1 || imp.Cluster.String() != "members/default/llm" ||
		strings.Contains(texts(imp.Findings), "do not spill") {
		t.Errorf("the whole import: cluster %s, spill %+v, findings %s; want members/default/llm and 1",
			imp.Cluster, imp.Spill, texts(imp.Findings))
	}
	_, one := imported(t, llmImport[:strings.Index(llmImport, "  - name: east")]+westHost+"\n---\n"+bigPool+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm}, spill: [{name: big}]}
`)
	if text := texts(one.Findings); !one.Cluster.IsZero() ||
		!strings.Contains(text, "west-2 is reached through its gateway") {
		t.Errorf("want a finding that ParentMode does not spill: cluster %s, %s", one.Cluster, text)
	}
	_, apart := imported(t, llmImport+westHost+"\n---\n"+bigPool+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm-east}, spill: [{name: big}]}
`)
	if text := texts(apart.Findings); len(apart.Spill) > 0 ||
		!strings.Contains(text, "PoolPolicy default/p spec.spill: it is for requests that name cluster east alone") {
		t.Errorf("a policy of one cluster: spill %+v, %s; want none, and that it is for east alone", apart.Spill, text)
	}
	hop, ok := inference.Hop(v, hopID(t, "hop.default.import.llm-east"))
	if !ok || len(hop.Backends) != 1 || hop.Backends[0].Cluster.String() != "last/import/default/llm/east" {
		t.Errorf("hop %+v, want last/import/default/llm/east", hop)
	}
	if hop, ok := inference.Hop(v, hopID(t, "hop.default.import.llm@east")); !ok || len(hop.Backends) != 1 ||
		hop.Backends[0].Cluster.String() != "last/import/default/llm/east" {
		t.Errorf("a cluster's own hop: got %+v, want last/import/default/llm/east", hop)
	}
	if _, ok := inference.Hop(v, hopID(t, "hop.default.import.llm@nowhere")); ok {
		t.Error("a hop to a cluster that the import does not have")
	}
	if hop, ok := inference.Hop(v, hopID(t, "hop.default.import.llm")); !ok || len(hop.Backends) != 1 ||
		hop.Backends[0].Cluster.String() != "last/members/default/llm" || len(hop.Backends[0].Members) != 2 ||
		len(hop.Behind) != 2 || hop.Behind[0].Hop.String() != "hop.default.import.llm@east" {
		t.Errorf("a hop to a whole import: got %+v, want last/members/default/llm with the hops of 2 clusters", hop)
	}
	any := model.HopTo("InferencePoolImport", "default", "llm")
	any.Member = model.AnyMember
	if hop, ok := inference.Hop(v, any); !ok || len(hop.Backends) != 2 || len(hop.Behind) != 0 {
		t.Errorf("a hop to any cluster of an import: got %+v, want both", hop)
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
	v, _ := imported(t, two) // b has no address, but also gets no requests
	clusters, shares, reason := resolve(v, "llm")
	if reason != "" || !slices.Equal(shares, []uint32{0, 0}) {
		t.Errorf("an import that counts as weight 0: clusters %v, shares %v, reason %q; want two shares of 0, and "+
			"no reason", clusters, shares, reason)
	}
	v, _ = imported(t,
		strings.Replace(two, "name: b, routingMode: ParentMode, weight: 0", "name: b, routingMode: ParentMode", 1))
	if _, _, reason := resolve(v, "llm"); reason != "BackendNotFound" {
		t.Errorf("the only cluster with a weight cannot be reached: got reason %q, want BackendNotFound", reason)
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
		t.Errorf("clusters %v, shares %v; want east with 0, which stays for the requests in flight, and west-2 with 3",
			clusters, shares)
	}
	if _, shares, reason := resolve(v, "llm-east"); reason != "" || !slices.Equal(shares, []uint32{0}) {
		t.Errorf("pinned: got shares %v, reason %q; want 0, and no reason", shares, reason)
	}
	if _, ok := inference.Hop(v, hopID(t, "hop.default.import.llm-east")); ok {
		t.Error("a pool spills to it")
	}
	if text := texts(imp.Findings); !strings.Contains(text,
		"status.clusters[1].conditions: cluster east takes no new requests: its controller reports Ready=False, "+
			"reason Draining") {
		t.Errorf("findings: got %s, want that east takes no new requests", text)
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
		status string // text before status.clusters
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
			t.Errorf("%s: findings %s, want that east takes no new requests: %t", c.status, text, c.field != "")
		}
		if c.shares[1] == 0 && (imp.Ready.Status != "False" || imp.Ready.Reason != "NoUsableCluster") {
			t.Errorf("%s: Ready is %+v, want False by NoUsableCluster", c.status, imp.Ready)
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
		t.Errorf("findings: got %s, want none about spill", text)
	}
	_, imp = imported(t, both+`
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm-east},
  spill: [{kind: InferencePoolImport, name: llm-east}, {kind: InferencePoolImport, name: llm}]}
`)
	if text := texts(imp.Findings); strings.Count(text, "a pool cannot spill to itself") != 2 {
		t.Errorf("findings: got %s, want twice that a pool cannot spill to itself", text)
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
		t.Errorf("got %+v, want 192.0.2.80:80 alone, with share 3", m)
	}
	if text := texts(imp.Findings); !strings.Contains(text,
		"status.clusters[0].parents[0].conditions: cluster west-2: gateway web/old takes no new requests") {
		t.Errorf("findings: got %s, want that web/old takes no new requests", text)
	}
	v, imp := imported(t, strings.Replace(llmImport, `parents: [{`, `parents: [{`+draining, 1)+westHost)
	if m := imp.Members[1]; m.Problem != "" || m.NotReady != "Draining" {
		t.Errorf("got %+v, want not ready by Draining, without a problem", m)
	}
	if _, shares, _ := resolve(v, "llm"); !slices.Equal(shares, []uint32{1, 0}) {
		t.Errorf("shares %v; its cluster must stay for the requests in flight, want %v", shares, []uint32{1, 0})
	}
	_, imp = imported(t,
		strings.Replace(llmImport, `parents: [{`, `parents: [{`+strings.Replace(draining, `"False"`, "Unknown", 1), 1)+
			westHost)
	if m := imp.Members[1]; len(m.Parents) != 1 || m.Share != 3 {
		t.Errorf("a gateway whose state is not known: got %+v, want it used, with share 3", m)
	}
}

// A remote picker's changes to a request must not reach the spill target, so the pool needs a
// cluster of hops.
func TestInferencePoolImport_RelayedPoolThatSpillsIsBehindAHop(t *testing.T) {
	_, imp := imported(t, llmImport+westHost+`
---
kind: PoolPolicy
metadata: {name: spills}
spec: {targetRef: {kind: InferencePoolImport, name: llm-east}, spill: [{kind: InferencePoolImport, name: llm-west-2}]}
`)
	if p := imp.Members[0].Pool; p.Relay == nil || len(p.Spill) != 1 || !p.ViaHops() ||
		p.Cluster.Variant != model.HopsVariant {
		t.Errorf("got %+v, want a relay that spills once, via hops", p)
	}
}

// An exporting cluster controls the length of its lists.
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
			t.Errorf("%s: %d findings, want 2 to 20, one about more elements: %v", what, n, imp.Findings[:min(n, 3)])
		}
	}
}

// An exporting cluster controls the length of its texts.
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
			t.Errorf("%s: no finding, want one", what)
		}
	}
}
