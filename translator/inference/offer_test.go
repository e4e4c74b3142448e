package inference_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

const offers = `
---
kind: Offer
metadata: {name: llm.north}
Import: llm
Cluster: {name: north, routingMode: EndpointMode, targetPortNumber: 8000, podCIDRs: [10.3.0.0/16],
  endpointPicker: {service: [{addresses: [192.0.2.3], ports: [{number: 9002}]}]}}
Allowed: [192.0.2.0/30]
Pods: [10.3.1.0/24]
---
kind: Offer
metadata: {name: llm.east}
Import: llm
Cluster: {name: east, routingMode: ParentMode, parents: [{service: [{addresses: [192.0.2.9], ports: [{number: 80}]}]}]}
Cleartext: true
`

func TestOffer_IsPartOfTheImportOfItsName(t *testing.T) {
	_, imp := imported(t, llmImport+westHost+offers)
	var got []string
	for _, m := range imp.Members {
		got = append(got, m.Name+" "+m.Cluster.String())
	}
	want := []string{"east parent/default/llm/east", "north import/default/llm/north",
		"west-2 parent/default/llm/west-2"}
	if !slices.Equal(got, want) {
		t.Errorf("members %q, want %q: an offer counts for its cluster, and other entries stay", got, want)
	}
}

// The cost of a cluster must not grow with the number of an import's clusters. Otherwise, a hundred
// clusters with the same hundred pools take minutes to sync.
func TestOffer_CostOfAClusterDoesNotGrowWithTheirNumber(t *testing.T) {
	allocated := func(clusters int) uint64 {
		var docs []string
		for i := range clusters {
			docs = append(docs, fmt.Sprintf(`
kind: Offer
metadata: {name: llm.c-%[1]d}
Import: llm
Cluster: {name: c-%[1]d, routingMode: EndpointMode, targetPortNumber: 8000, podCIDRs: [10.3.0.0/16],
  endpointPicker: {service: [{addresses: [192.0.2.3], ports: [{number: 9002}]}]}}
`, i))
		}
		v := world(t, strings.Join(docs, "---\n"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if imp, ok := inference.Import(v, "default/llm"); !ok || len(imp.Members) != clusters {
			t.Fatal("no import of all clusters")
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := allocated(10), allocated(200)
	if many > 2*20*few {
		t.Errorf("%d bytes allocated with 200 clusters, %d with 10, want at most %d", many, few, 2*20*few)
	}
}

func TestOffer_NeedsNoImport(t *testing.T) {
	v := world(t, strings.TrimPrefix(offers, "\n---"))
	clusters, shares, reason := resolve(v, "llm")
	if len(clusters) != 2 || !slices.Equal(shares, []uint32{1, 1}) || reason != "" {
		t.Errorf("clusters %q, shares %v, reason %s; want 2 with 1 each", clusters, shares, reason)
	}
	if pinned, _, _ := resolve(v, "llm-north"); len(pinned) != 1 || !strings.Contains(pinned[0], "north") {
		t.Errorf("NAME-CLUSTER leads to %q, want north", pinned)
	}
}

func TestOffer_AddressesOutsideItsMembersRangesAreNotDialled(t *testing.T) {
	_, imp := imported(t, strings.Replace(strings.TrimPrefix(offers, "\n---"), "192.0.2.3", "192.0.2.3, 192.0.2.77", 1))
	north := imp.Members[1]
	if len(north.Pool.Relay.Pickers) != 1 || north.Pool.Relay.Pickers[0].Addr.String() != "192.0.2.3:9002" ||
		len(north.Pool.Relay.Within) != 2 {
		t.Errorf("pickers %v, ranges %v; want 192.0.2.3:9002, and 2", north.Pool.Relay.Pickers, north.Pool.Relay.Within)
	}
	if got := texts(imp.Findings); !strings.Contains(got,
		"address 192.0.2.77 is outside the ranges that the ClusterSet allows member north") {
		t.Errorf("findings: got %s, want that 192.0.2.77 is outside the ranges of north", got)
	}
	if east := imp.Members[0]; len(east.Parents) != 1 {
		t.Errorf("a member without ranges: got parents %v, want 1", east.Parents)
	}
}

// A cluster without an allowed server takes no requests, and the import has the reason for its
// exporter (multicluster/imports).
func TestOffer_OfWhichNothingIsAllowedTakesNoRequest(t *testing.T) {
	const outside = " is outside the ranges that the ClusterSet allows member "
	endpoints := func(list string) string {
		return strings.Replace(offers, "endpointPicker: {", "endpoints: ["+list+"], endpointPicker: {", 1)
	}
	for what, c := range map[string]struct{ offers, cluster, problem, reason, field string }{
		"all allowed": {offers, "north", "", "", ""},
		"a model server": {endpoints("{address: 10.3.1.1}, {address: 10.3.2.1}"), "north", "", "",
			"status.clusters[1].endpoints[1].address"},
		"no model server": {endpoints("{address: 10.3.2.1}, {address: 10.3.1.1, draining: true}"), "north",
			"none of its model servers is allowed: address 10.3.2.1" + outside + "north", "NotAllowed",
			"status.clusters[1].endpoints[0].address"},
		"no declared range": {strings.Replace(offers, "10.3.0.0/16", "10.4.0.0/16", 1), "north",
			"none of its model servers is allowed: podCIDRs of the exporting cluster are outside the ranges that the " +
				"ClusterSet allows member north", "NotAllowed", "status.clusters[1].podCIDRs"},
		"no picker": {strings.Replace(offers, "192.0.2.3", "192.0.2.77", 1), "north",
			"address 192.0.2.77" + outside + "north", "NotAllowed",
			"status.clusters[1].endpointPicker.service[0].addresses[0]"},
		"no gateway": {offers + "Allowed: [192.0.2.0/30]\n", "east", "address 192.0.2.9" + outside + "east",
			"NotAllowed", "status.clusters[0].parents[0].service[0].addresses[0]"},
		"an unresolved name": {strings.Replace(offers, "[192.0.2.9]", "[gw.example.com]", 1), "east",
			"no parent gateway has a known address", "", ""},
		"no certificates": {
			strings.Replace(offers, "service: [{addresses: [192.0.2.9]",
				"peer: true, service: [{addresses: [192.0.2.9]", 1), "east",
			"its gateways take requests of members of its cluster set alone, and the ClusterSet here has no " +
				"certificates of east", "NotSupported", "",
		},
	} {
		_, imp := imported(t, strings.TrimPrefix(c.offers, "\n---"))
		m := imp.Members[slices.IndexFunc(imp.Members, func(m model.ImportMember) bool { return m.Name == c.cluster })]
		if m.Problem != c.problem || m.Reason != c.reason {
			t.Errorf("%s: %q, reason %q, want %q and %q", what, m.Problem, m.Reason, c.problem, c.reason)
		}
		if c.field == "" {
			continue
		}
		i := slices.IndexFunc(imp.Findings, func(f report.Finding) bool {
			return f.Field == c.field && strings.Contains(f.Problem, outside[4:])
		})
		if i < 0 ||
			imp.Findings[i].Fix !=
				"add the range to allow.podCIDRs (model servers) or allow.addresses (pickers, gateways) of the "+
					"member in the ClusterSet here" {
			t.Errorf("%s: got findings %+v, want one of %s whose fix is to add the range", what, imp.Findings, c.field)
		}
		if strings.Contains(texts(imp.Findings), "is known") ||
			strings.Contains(texts(imp.Findings), "a known address") {
			t.Errorf("%s: besides the denied address, a finding that there is no address, want none: %s",
				what, texts(imp.Findings))
		}
	}
}

// A cluster that left the set is no longer trusted while its exports drain. No finding may suggest
// adding it again.
func TestOffer_ClusterThatTakesNoNewRequestsNeedsNoCertificates(t *testing.T) {
	peers := strings.NewReplacer("service: [{addresses: [192.0.2.9]", "peer: true, service: [{addresses: [192.0.2.9]",
		"endpointPicker: {", "endpointPicker: {peer: true, ").Replace(offers)
	drains := strings.ReplaceAll(peers, "routingMode:",
		`conditions: [{type: Ready, status: "False", reason: Draining}], routingMode:`)
	for offers, want := range map[string]bool{peers: true, drains: false} {
		_, imp := imported(t, strings.TrimPrefix(offers, "\n---"))
		if got := strings.Count(texts(imp.Findings), "has no certificates of"); (got == 2) != want || !want && got > 0 {
			t.Errorf("%d findings about certificates, wanted: %t: %s", got, want, texts(imp.Findings))
		}
		for _, m := range imp.Members {
			if m.Problem == "" {
				t.Errorf("%s can be used, want a problem", m.Name)
			}
		}
	}
}

func TestImport_MissingOneIsMadeByAnExport(t *testing.T) {
	res := inference.Backends{Tables: direct{}}.Resolve(store.New().View(),
		report.Ref{Group: "inference.networking.x-k8s.io", Kind: "InferencePoolImport", Namespace: "default",
			Name: "llm"}, 0)
	if want :=
		"there is no InferencePoolImport default/llm; have a cluster of the set export a pool " +
			"of this name"; !strings.HasPrefix(res.Message, want) {
		t.Errorf("message %q, want %q", res.Message, want)
	}
}

// No object in this cluster has the fields of another cluster's export, so a fix must name fields
// in the exporting cluster.
func TestOffer_FixesAreForTheMembersCluster(t *testing.T) {
	cleartext := strings.NewReplacer("number: 9002", "number: 9002, appProtocol: kubernetes.io/h2c").Replace(offers)
	unresolved := strings.NewReplacer("192.0.2.3", "picker.example.com", "192.0.2.9", "gw.example.com").Replace(offers)
	for _, c := range []struct{ offers, want string }{
		{
			cleartext,
			"sent to its picker in cleartext; in cluster north, for Penstock's own picker start penstock with " +
				"--xds-cert, --xds-key and --xds-client-ca, and",
		},
		{
			cleartext,
			"sent to its gateways in cleartext; write spec.peerListener in the ClusterSet of cluster east, or write " +
				"a BackendTLSPolicy",
		},
		{unresolved, "no address of the remote picker is known; in cluster north, give the picker an address"},
		{unresolved, "no parent gateway has a known address; in cluster east, give the Gateways addresses"},
	} {
		if _, imp := imported(t, strings.TrimPrefix(c.offers, "\n---")); !strings.Contains(
			texts(append(imp.Findings, inference.Exposed(imp)...)), c.want) {
			t.Errorf("no %q in\n%s%s", c.want, texts(imp.Findings), texts(inference.Exposed(imp)))
		}
	}
}

func TestOffer_OwnEntryIsTheLocalPool(t *testing.T) {
	own := `
---
kind: Offer
metadata: {name: llm.here}
Import: llm
Local: true
Cluster: {name: here, routingMode: EndpointMode, weight: 3}
`
	pool := `
---
kind: InferencePool
apiVersion: inference.networking.k8s.io/v1
metadata: {name: llm}
spec: {selector: {matchLabels: {app: llm}}, targetPorts: [{number: 8000}]}
`
	clusters, shares, reason := resolve(world(t, strings.TrimPrefix(offers+own+pool, "\n---")), "llm")
	if !slices.ContainsFunc(clusters, func(c string) bool { return strings.HasPrefix(c, "pool/default/llm") }) ||
		!slices.Equal(shares, []uint32{1, 3, 1}) || reason != "" {
		t.Errorf("clusters %q, shares %v, reason %s; want our pool too, and shares 1, 3, 1", clusters, shares, reason)
	}
	hub := `
---
kind: InferencePoolImport
apiVersion: inference.networking.x-k8s.io/v1alpha1
metadata: {name: llm}
status: {clusters: [{name: here, local: true, routingMode: EndpointMode, targetPortNumber: 8000, weight: 3,
  endpointPicker: {service: [{addresses: [192.0.2.1], ports: [{number: 9002}]}]}},
  {name: east, local: true, routingMode: ParentMode}]}
`
	clusters, shares, reason = resolve(world(t, strings.TrimPrefix(offers+hub+pool, "\n---")), "llm")
	if !slices.ContainsFunc(clusters, func(c string) bool { return strings.HasPrefix(c, "pool/default/llm") }) ||
		!slices.Equal(shares, []uint32{1, 3, 1}) || reason != "" {
		t.Errorf("as a hub writes it, and a member that claims to be here: got %q %v %s, want our pool and shares "+
			"1, 3, 1", clusters, shares, reason)
	}
	if clusters, shares, _ := resolve(world(t, strings.TrimPrefix(offers+own, "\n---")),
		"llm"); slices.ContainsFunc(clusters, func(c string) bool { return strings.HasPrefix(c, "pool/") }) {
		t.Errorf("without the pool: got %q %v, want no pool of ours", clusters, shares)
	}
}

// A cluster that exports in ParentMode gets prompts in cleartext only if its ClusterSet entry
// allows it. Entries that users wrote, and gateways with TLS, are not restricted.
func TestOffer_GatewaysOfAMemberGetNoCleartextUnlessAllowed(t *testing.T) {
	denied := strings.Replace(offers, "Cleartext: true\n", "", 1)
	east := func(documents string) (*model.ImportMember, string) {
		t.Helper()
		_, imp := imported(t, llmImport+westHost+documents)
		return &imp.Members[0], texts(imp.Findings)
	}
	m, text := east(denied)
	if len(m.Parents) > 0 || m.Takes() || m.Reason != "NotAllowed" ||
		!strings.Contains(m.Problem, "192.0.2.9:80 is reached in cleartext") {
		t.Errorf("got %+v, want NotAllowed: 192.0.2.9:80 is reached in cleartext", m)
	}
	if !strings.Contains(text, "write allow: {cleartext: true} for the member in the ClusterSet here") {
		t.Errorf("findings: got %s, want the fix allow: {cleartext: true}", text)
	}
	if strings.Contains(text, "cluster west-2: address") {
		t.Errorf("an entry that a user wrote is denied, want it accepted: %s", text)
	}
	if m, _ := east(offers); len(m.Parents) != 1 || !m.Takes() {
		t.Errorf("allowed: got %+v, want one gateway, used", m)
	}
	if m, _ := east(strings.Replace(denied, "{number: 80}", "{number: 443, appProtocol: https}", 1)); len(
		m.Parents) != 1 || !m.Takes() {
		t.Errorf("a gateway with TLS: got %+v, want it used", m)
	}
	const secured = `
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: secured}
spec:
  targetRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: llm, sectionName: east}]
  validation: {hostname: gw.example, wellKnownCACertificates: System}
`
	if m, text := east(denied + secured); len(m.Parents) != 1 || !m.Takes() {
		t.Errorf("with a BackendTLSPolicy: got %+v, %s; want one gateway, used", m, text)
	}
	two := strings.Replace(denied, "ports: [{number: 80}]}]}]",
		"ports: [{number: 80}]}, {addresses: [192.0.2.10], ports: [{number: 443, appProtocol: https}]}]}]", 1)
	if m, _ := east(two); len(m.Parents) != 1 || m.Parents[0].Cleartext || !m.Takes() {
		t.Errorf("one gateway of two has TLS: got %+v, want it alone, used", m)
	}
}
