package export_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/registry"
)

var llmPool = objectid.Pool{Namespace: "example", Name: "llm-pool"}

// seedPool and seedPicker are the proposal's manifests ("Exporting Cluster (Cluster A) Manifests"),
// with the fields that Kubernetes adds.
const (
	seedPool = `
metadata:
  name: llm-pool
  namespace: example
  annotations:
    inference.networking.x-k8s.io/export: "ClusterSet"
    inference.networking.x-k8s.io/export-mode: "EndpointMode"
spec:
  endpointPickerRef:
    name: epp
    port: {number: 9002}
  selector:
    matchLabels: {app: my-model}
  targetPorts:
  - number: 8080
`
	seedPicker = `
metadata: {name: epp, namespace: example}
spec:
  selector: {app: epp}
  ports:
  - {name: ext-proc, port: 9002, targetPort: 9002, appProtocol: http2}
  - {name: health, port: 9003, targetPort: 9003}
  - {name: metrics, port: 9090, targetPort: 9090}
  type: LoadBalancer
status:
  loadBalancer: {ingress: [{ip: 1.2.3.4}]}
`
	// seedEntry is the proposal's import ("Importing Cluster (Cluster B) Manifests"), with a list
	// for service as in the proposal's Go types.
	seedEntry = `
name: cluster-a
routingMode: EndpointMode
targetPortNumber: 8080
endpointPicker:
  name: epp
  service:
  - type: LoadBalancer
    addresses: [1.2.3.4]
    ports: [{number: 9002}]
  health: {port: 9003}
  metrics: {port: 9090}
`
)

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return &out
}

// world is a store with a pool and a Service. An empty text means no Service.
func world(t *testing.T, pool, service string) *store.View {
	t.Helper()
	s := store.New()
	ops := []store.Op{store.InferencePools.Put(decode[inferencev1.InferencePool](t, pool))}
	if service != "" {
		ops = append(ops, store.Services.Put(decode[corev1.Service](t, service)))
	}
	if _, err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
	return s.View()
}

var set = export.Config{Cluster: "cluster-a", Members: []string{"cluster-b", "cluster-c"}}

func decide(t *testing.T, c export.Config, pool, service string, has export.Pool) export.Decision {
	t.Helper()
	d, ok := export.Decide(world(t, pool, service), c, llmPool, has)
	if !ok {
		t.Fatal("no pool")
	}
	return d
}

func texts(findings []report.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

func TestExport_SeedsManifestsGiveItsStatus(t *testing.T) {
	d := decide(t, set, seedPool, seedPicker, export.Pool{})
	if d.Export == nil {
		t.Fatalf("not exported, want it: %s: %s", d.Reason, d.Message)
	}
	got, want := d.Export.Entry, *decode[inferenceapi.ImportedCluster](t, seedEntry)
	got.TargetPorts, got.FailureMode = nil, "" // fields that only Penstock has
	got.EndpointPicker.Service[0].Ports[0].Name, got.EndpointPicker.Service[0].Ports[0].AppProtocol = "", ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want the seed's entry (-seed +got):\n%s", diff)
	}
	if d.Export.To != nil || len(d.Findings) > 0 {
		t.Errorf("exported to %v, findings %s, want to all members without findings", d.Export.To, texts(d.Findings))
	}
}

// If Penstock's picker serves only members, the entry states this. Other importers, for example
// through a hub, could not call the picker.
func TestExport_PickerForMembersIsNoOneElses(t *testing.T) {
	pool := strings.Replace(seedPool, "  endpointPickerRef:\n    name: epp\n    port: {number: 9002}\n", "", 1)
	c := set
	c.Pickers, c.MembersPick = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:9002")}, true
	d := decide(t, c, pool, "", export.Pool{})
	if d.Export == nil || !d.Export.Entry.EndpointPicker.Peer ||
		d.Export.Entry.EndpointPicker.Pool != "example/llm-pool" {
		t.Fatalf("got %+v, want a peer's picker of example/llm-pool", d)
	}
	if hub := decide(t, export.Config{Cluster: "cluster-a", Hub: true}, pool, "",
		export.Pool{Own: &d.Export.Entry}); hub.Export != nil || !strings.Contains(hub.Message, "--picker-open") {
		t.Errorf("a hub: got %+v, want no export, and --picker-open", hub)
	}
	c.MembersPick = false
	if d := decide(t, c, pool, "", export.Pool{}); d.Export == nil || d.Export.Entry.EndpointPicker.Peer {
		t.Errorf("an open picker: got %+v, want an export, and no peer", d)
	}
}

// A pool waits for a Gateway's peer listener. While the set has no other member, this is no error.
func TestExport_PeerListenerBeforeTheFirstMember(t *testing.T) {
	pool := strings.Replace(seedPool, `"EndpointMode"`, `"ParentMode"`, 1)
	c := set
	c.PeerListener = true
	has := export.Pool{Gateways: []export.Gateway{{Namespace: "example", Name: "edge"}}}
	if d := decide(t, c, pool, "", has); d.Export != nil || len(d.Findings) != 1 ||
		d.Findings[0].Severity != report.Error {
		t.Errorf("with members: got %+v, want no export, and an error", d)
	}
	c.Members = nil
	if d := decide(t, c, pool, "", has); d.Export != nil || !d.Waiting || len(d.Findings) != 1 ||
		d.Findings[0].Severity != report.Info || !strings.Contains(d.Findings[0].Problem,
		"see penstock clusters join") {
		t.Errorf("without members: got %+v, want it to wait, with an info", d)
	}
}

func TestExport_EndpointsHaveTheirOwnPortsOnly(t *testing.T) {
	pool := strings.Replace(seedPool, "  endpointPickerRef:\n    name: epp\n    port: {number: 9002}\n", "", 1)
	if d := decide(t, set, pool, "", export.Pool{}); d.Export != nil || d.Reason != "NotSupported" ||
		!strings.Contains(d.Message, "--picker-open") {
		t.Errorf("a picker that others do not reach: got %+v, want NotSupported and --picker-open", d)
	}
	open := set
	open.Pickers, open.Cleartext = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:9002")}, true
	d := decide(t, open, pool, "", export.Pool{Endpoints: []netip.AddrPort{
		netip.MustParseAddrPort("10.0.0.2:8081"), netip.MustParseAddrPort("10.0.0.2:8080"),
		netip.MustParseAddrPort("[::ffff:10.0.0.1]:8080"),
		netip.MustParseAddrPort("10.0.0.3:9000"),
	}})
	if d.Export == nil {
		t.Fatalf("not exported, want it: %s: %s", d.Reason, d.Message)
	}
	if diff := cmp.Diff([]inferenceapi.ImportedEndpoint{
		{Address: "10.0.0.1"}, {Address: "10.0.0.2", Ports: []int32{8080, 8081}},
		{Address: "10.0.0.3", Ports: []int32{9000}},
	}, d.Export.Entry.Endpoints); diff != "" {
		t.Errorf("want these endpoints (-want +got):\n%s", diff)
	}
	if at := d.Export.Entry.EndpointPicker.Service[0]; at.Addresses[0] != "192.0.2.7" ||
		at.Ports[0] != (inferenceapi.Port{Number: 9002, AppProtocol: "kubernetes.io/h2c"}) {
		t.Errorf("its picker: got %+v, want 192.0.2.7:9002 by h2c", at)
	}
}

// A mistyped annotation is a finding, whether or not the pool is exported, and has no other effect.
func TestExport_UnknownAnnotationIsAFinding(t *testing.T) {
	weighted := strings.Replace(seedPool, "  annotations:\n", "  annotations:\n    penstock.dev/export-wieght: \"3\"\n",
		1)
	if d := decide(t, set, weighted, seedPicker, export.Pool{}); d.Export == nil ||
		!strings.Contains(texts(d.Findings),
			"metadata.annotations[penstock.dev/export-wieght]: a pool has no annotation of this name") {
		t.Errorf("got %+v: %s, want an export, and a finding about penstock.dev/export-wieght", d, texts(d.Findings))
	}
	mistyped := strings.Replace(seedPool, export.Annotation+":", export.Annotation+"ed:", 1)
	if d := decide(t, set, mistyped, seedPicker, export.Pool{}); d.Asked ||
		!strings.Contains(texts(d.Findings), export.Annotation+
			"ed]: a pool has no annotation of this name; write one of ") {
		t.Errorf("got %+v: %s, want no export, and a finding about the annotation", d, texts(d.Findings))
	}
}

// An entry states the failure mode that the pool has in its own cluster. With Penstock's own
// picker, it is translation's failure mode. With an external picker, the endpointPickerRef has it.
func TestExport_PoolKeepsItsFailureMode(t *testing.T) {
	own := strings.Replace(seedPool, "  endpointPickerRef:\n    name: epp\n    port: {number: 9002}\n", "", 1)
	external := strings.Replace(seedPool, "    name: epp\n", "    name: epp\n    failureMode: FailOpen\n", 1)
	open := set
	open.Pickers = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:9002")}
	for _, c := range []struct {
		what, pool, service string
		failOpen            bool
		want                string
	}{
		{"own picker", own, "", true, "FailOpen"},
		{"own picker, FailClose", own, "", false, "FailClose"},
		{"external picker, FailOpen", external, seedPicker, false, "FailOpen"},
		{"external picker", seedPool, seedPicker, true, "FailClose"},
	} {
		d := decide(t, open, c.pool, c.service, export.Pool{FailOpen: c.failOpen})
		if d.Export == nil || d.Export.Entry.FailureMode != c.want {
			t.Errorf("%s: %+v, want %s", c.what, d, c.want)
		}
	}
}

func TestExport_AddressesAreThoseOfTheServicesType(t *testing.T) {
	for spec, want := range map[string]string{
		"type: ExternalName\n  externalName: epp.example.com": "epp.example.com",
		"clusterIPs: [10.96.0.7, fd00::7]":                    "10.96.0.7 fd00::7",
		"type: NodePort\n  clusterIP: 10.96.0.8":              "10.96.0.8",
		"clusterIP: None":                                     "",
		"type: LoadBalancer\n  externalIPs: [192.0.2.4]":      "192.0.2.4",
	} {
		service := "metadata: {name: epp, namespace: example}\nspec:\n  ports: [{port: 9002}]\n  " + spec
		d := decide(t, set, seedPool, service, export.Pool{})
		got := ""
		if d.Export != nil {
			got = strings.Join(d.Export.Entry.EndpointPicker.Service[0].Addresses, " ")
		}
		if got != want || (want == "") != (d.Reason == "NoAddress") {
			t.Errorf("%s: %q (%s), want %q", spec, got, d.Message, want)
		}
	}
	for what, service := range map[string]string{
		"does not exist": "",
		"has no port 9002": "metadata: {name: epp, namespace: example}\nspec: {clusterIP: 10.96.0.7, ports: " +
			"[{port: 80}]}",
	} {
		if d := decide(t, set, seedPool, service, export.Pool{}); d.Export != nil || d.Reason != "NoAddress" ||
			!strings.Contains(d.Message, what) {
			t.Errorf("%s: got %+v, want NoAddress with this message", what, d)
		}
	}
}

func TestExport_ParentModeNamesTheGatewaysOfThePool(t *testing.T) {
	pool := strings.Replace(seedPool, `"EndpointMode"`, `"ParentMode"`, 1)
	if d := decide(t, set, pool, "", export.Pool{}); d.Reason != "NoAddress" ||
		!strings.Contains(d.Message, "no Gateway routes to it") {
		t.Errorf("without a route: got %+v, want NoAddress, as no Gateway routes to it", d)
	}
	if d := decide(t, set, pool, "",
		export.Pool{
			Gateways: []export.Gateway{{Namespace: "infra", Name: "gw", Ports: []inferenceapi.Port{{Number: 80}}}},
		}); d.Reason != "NoAddress" || !strings.Contains(d.Message, "infra/gw") {
		t.Errorf("without an address: got %+v, want NoAddress of infra/gw", d)
	}
	d := decide(t, set, pool, "",
		export.Pool{
			Gateways: []export.Gateway{
				{Namespace: "infra", Name: "gw", Addresses: []string{"192.0.2.80"},
					Ports: []inferenceapi.Port{{Number: 443, AppProtocol: "https"}, {Number: 80}}},
			},
		})
	if d.Export == nil || d.Export.Entry.EndpointPicker != nil || len(d.Export.Entry.Parents) != 1 ||
		d.Export.Entry.Parents[0].Service[0].Ports[0].AppProtocol != "https" {
		t.Errorf("got %+v, want one parent by https, and no picker", d)
	}
}

func TestExport_WrongAnnotationsNameWhatToWrite(t *testing.T) {
	annotate := func(line string) string {
		return strings.Replace(seedPool, "    inference.networking.x-k8s.io/export-mode: \"EndpointMode\"\n", line, 1)
	}
	for line, want := range map[string]string{
		"    inference.networking.x-k8s.io/export-mode: Both\n": `"Both" is not supported; write EndpointMode or ParentMode`,
		"    penstock.dev/export-to: mars\n":                    `"mars" is no member of the ClusterSet`,
		"    penstock.dev/export-to: \", \"\n": "it names no member; name members of the " +
			"ClusterSet, separated by commas, or remove it",
		"    penstock.dev/export-weight: many\n":   `"many" is no weight; write a number from 0 to 1000000`,
		"    penstock.dev/export-weight: \"-1\"\n": `"-1" is no weight`,
	} {
		d := decide(t, set, annotate(line), seedPicker, export.Pool{})
		if d.Export != nil || !d.Asked || d.Reason != "NotSupported" || !strings.Contains(texts(d.Findings), want) {
			t.Errorf("%s: got %+v, want NotSupported with %s", line, d, want)
		}
		before := decide(t, set, annotate("    penstock.dev/export-weight: \"7\"\n"), seedPicker, export.Pool{})
		kept := decide(t, set, annotate(line), seedPicker, export.Pool{Before: before.Wish})
		condition := export.Exported(kept, set.Members, nil)
		if strings.Contains(line, "export-to") {
			if kept.Export != nil {
				t.Errorf("%s: a pool that is for no member any more is exported as before: %+v", line, kept.Export)
			}
		} else if kept.Export == nil || !cmp.Equal(kept.Export.Entry, before.Export.Entry) ||
			condition.Reason != "NotSupported" || !strings.Contains(condition.Message, want) ||
			!strings.Contains(condition.Message, "exported as before") {
			t.Errorf("%s: what was valid is not kept: %+v, %+v", line, kept, condition)
		}
		if again := decide(t, set, annotate(line), seedPicker,
			export.Pool{Before: kept.Wish}); (again.Export == nil) != (kept.Export == nil) {
			t.Errorf("%s: decided again: got %+v, want an export: %t", line, again, kept.Export != nil)
		}
	}
	one := decide(t, set, annotate("    penstock.dev/export-to: cluster-b, mars\n"), seedPicker, export.Pool{})
	if one.Export == nil || !cmp.Equal(one.Export.To, []string{"cluster-b"}) || len(one.Findings) == 0 ||
		one.Findings[0].Severity != report.Warning ||
		!strings.Contains(texts(one.Findings), `"mars" is no member of the ClusterSet`) {
		t.Errorf("got %+v, want an export to cluster-b alone, and a warning that mars is no member", one)
	}
	d := decide(t, set,
		strings.Replace(annotate("    penstock.dev/export-to: cluster-c,\n    penstock.dev/export-weight: \"3\"\n"),
			"ClusterSet", "ClusterSet", 1), seedPicker, export.Pool{})
	if d.Export == nil || !cmp.Equal(d.Export.To, []string{"cluster-c"}) || *d.Export.Entry.Weight != 3 {
		t.Errorf("got %+v: %s, want an export to cluster-c with weight 3", d, texts(d.Findings))
	}
	if d = decide(t, set, strings.Replace(seedPool, "ClusterSet", "World", 1), seedPicker,
		export.Pool{}); d.Export != nil || !strings.Contains(texts(d.Findings),
		`"World" is not supported; write ClusterSet`) {
		t.Errorf("got %+v, want no export, and a finding to write ClusterSet", d)
	}
	if d = decide(t, set,
		strings.Replace(seedPool, `    inference.networking.x-k8s.io/export: "ClusterSet"`+"\n", "", 1), seedPicker,
		export.Pool{}); d.Asked || !strings.Contains(texts(d.Findings),
		"it has no effect without inference.networking.x-k8s.io/export") {
		t.Errorf("mode without export: got %+v, want a finding that it has no effect", d)
	}
}

func TestExported_IsTrueOnceEveryIntendedMemberHasTheImport(t *testing.T) {
	pool := llmPool
	d := export.Decision{Pool: pool, Asked: true, Export: &export.Export{Pool: pool}}
	at := func(member, reason string) registry.Placement {
		return registry.Placement{Member: member, Pool: pool, Reason: reason}
	}
	because := func(member, why string) registry.Placement {
		return registry.Placement{Member: member, Pool: pool, Reason: "NotAllowed", Message: why}
	}
	for _, c := range []struct {
		to         []string
		placements []registry.Placement
		status     string
		text       string
	}{
		{
			nil, nil, report.False,
			"MemberUnreachable: imported by 0 members, and not by others: MemberUnreachable: cluster-b, cluster-c",
		},
		{nil, []registry.Placement{at("cluster-b", ""), at("cluster-c", "NamespaceNotFound")}, report.False,
			"NamespaceNotFound: imported by 1 member, and not by others: NamespaceNotFound: cluster-c"},
		{nil, []registry.Placement{because("cluster-b", ""), because("cluster-c", "10.0.0.1 is\noutside")},
			report.False,
			"NotAllowed: imported by 0 members, and not by others: NotAllowed: cluster-b, cluster-c (cluster-c: " +
				"10.0.0.1 is outside)"},
		{nil, []registry.Placement{at("cluster-b", ""), because("cluster-c", "10.0.0.1 is outside")}, report.False,
			"NotAllowed: imported by 1 member, and not by others: NotAllowed: cluster-c (10.0.0.1 is outside)"},
		{nil, []registry.Placement{at("cluster-b", ""), at("cluster-c", "")}, report.True,
			"Exported: imported by 2 members"},
		{[]string{"cluster-b"}, []registry.Placement{at("cluster-b", "")}, report.True,
			"Exported: imported by 1 member"},
	} {
		d.Export.To = c.to
		got := export.Exported(d, set.Members, c.placements)
		if got.Type != "Exported" || got.Status != c.status || got.Reason+": "+got.Message != c.text {
			t.Errorf("to %v with %v: got %+v, want %s %s", c.to, c.placements, got, c.status, c.text)
		}
	}
	all := []registry.Placement{at("cluster-b", ""), at("cluster-c", "")}
	for want, entry := range map[string]inferenceapi.ImportedCluster{
		"; only members can use it, by the peer listener of its Gateways: for others, start penstock with --offer " +
			"example/llm-pool": {Parents: []inferenceapi.ParentImport{{Peer: true}, {Peer: true}}},
		"imported by 2 members": {Parents: []inferenceapi.ParentImport{{}, {}}},
		"; only members can use it, because its picker serves several pools and they name it: for others, start " +
			"penstock with --offer " +
			"example/llm-pool=PORT": {EndpointPicker: &inferenceapi.EndpointPickerImport{Pool: "example/llm-pool"}},
		"; only members can use it, because its picker serves only their Gateways: for others, start penstock with " +
			"--picker-open": {EndpointPicker: &inferenceapi.EndpointPickerImport{Pool: "example/llm-pool", Peer: true}},
	} {
		d.Export.To, d.Export.Entry = nil, entry
		if got := export.Exported(d, set.Members, all); got.Status != report.True ||
			!strings.Contains(got.Message, want) || !strings.Contains(want, ";") && got.Message != want {
			t.Errorf("%+v: %s, want %s", entry, got.Message, want)
		}
	}
	if got := export.Exported(d, nil, nil); got.Status != report.True ||
		got.Message != "the ClusterSet has no member that may import it" {
		t.Errorf(`without members: %+v, want Status %v and Message "the ClusterSet has no member that may import it"`,
			got, report.True)
	}
	if got := export.Exported(export.Decision{Asked: true, Reason: "NoAddress", Message: "none"}, set.Members,
		nil); got.Status != report.False || got.Reason != "NoAddress" {
		t.Errorf(`%+v, want Status %v and Reason "NoAddress"`, got, report.False)
	}
}

// pickers are the proposal's picker in two replicas, one of which is not ready.
const pickers = `
metadata: {name: epp-1, namespace: example, labels: {kubernetes.io/service-name: epp}}
addressType: IPv4
ports: [{name: ext-proc, port: 19002}, {name: health, port: 19003}]
endpoints:
- {addresses: [10.0.0.9]}
- {addresses: [10.0.0.8]}
- {addresses: [10.0.0.7], conditions: {ready: false}}
`

func TestExport_ReplicasOfThePickerHaveAddressesOfTheirOwn(t *testing.T) {
	for spec, want := range map[string]string{
		"ClusterIP":    "ClusterIP [10.0.0.8 10.0.0.9] 19002, health 19003",
		"NodePort":     "NodePort [192.0.2.1 192.0.2.2] 30002, health 30003",
		"LoadBalancer": "LoadBalancer [1.2.3.4] 9002, health 9003",
	} {
		service := decode[corev1.Service](t, seedPicker)
		service.Spec.Type, service.Spec.ClusterIP = corev1.ServiceType(spec), "10.96.0.7"
		service.Spec.Ports[0].NodePort, service.Spec.Ports[1].NodePort = 30002, 30003
		s := store.New()
		ops := []store.Op{store.InferencePools.Put(decode[inferencev1.InferencePool](t, seedPool)),
			store.Services.Put(service), store.EndpointSlices.Put(decode[discoveryv1.EndpointSlice](t, pickers))}
		for name, node := range map[string]string{"epp-a": "192.0.2.2", "epp-b": "192.0.2.1"} {
			pod := &corev1.Pod{
				Status: corev1.PodStatus{HostIP: node,
					Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			}
			pod.Namespace, pod.Name, pod.Labels = "example", name, map[string]string{"app": "epp"}
			ops = append(ops, store.Pods.Put(pod))
		}
		if _, err := s.Apply(ops...); err != nil {
			t.Fatal(err)
		}
		c := set
		c.Region, c.Zone, c.PodCIDRs = "eu", "eu-a", []string{"10.0.0.0/16"}
		d, _ := export.Decide(s.View(), c, llmPool, export.Pool{})
		if d.Export == nil {
			t.Fatalf("%s: not exported, want it: %s", spec, d.Message)
		}
		e := d.Export.Entry
		at := e.EndpointPicker.Service[0]
		if got := fmt.Sprintf("%s %v %d, health %d", at.Type, at.Addresses, at.Ports[0].Number,
			e.EndpointPicker.Health.Port); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if fmt.Sprintf("%s %s %v", e.Region, e.Zone, e.PodCIDRs) != "eu eu-a [10.0.0.0/16]" ||
			e.FailureMode != "FailClose" {
			t.Errorf("got %+v, want eu, eu-a, 10.0.0.0/16 and FailClose", e)
		}
	}
}

// A hub builds entries from the objects of a member: its nodes, and the PoolExports of its
// Penstock.
func TestExport_HubReachesNodesAndThePickerOfThePenstockThere(t *testing.T) {
	slice := decode[discoveryv1.EndpointSlice](t, pickers)
	for i := range slice.Endpoints {
		node := fmt.Sprintf("node-%d", i)
		slice.Endpoints[i].NodeName = &node
	}
	service := decode[corev1.Service](t, seedPicker)
	service.Spec.Type, service.Spec.ClusterIP = corev1.ServiceTypeNodePort, "10.96.0.7"
	service.Spec.Ports[0].NodePort, service.Spec.Ports[1].NodePort = 30002, 30003
	s := store.New()
	if _, err := s.Apply(store.InferencePools.Put(decode[inferencev1.InferencePool](t, seedPool)),
		store.Services.Put(service), store.EndpointSlices.Put(slice)); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]string{"node-0": "192.0.2.1", "node-1": "192.0.2.2", "node-2": "192.0.2.3"}
	c := set
	c.Hub, c.NodeAddress = true, func(name string) string { return nodes[name] }
	d, _ := export.Decide(s.View(), c, llmPool, export.Pool{})
	if d.Export == nil ||
		fmt.Sprint(d.Export.Entry.EndpointPicker.Service) !=
			"[{NodePort [192.0.2.1 192.0.2.2] [{30002 ext-proc http2}]}]" ||
		d.Export.Entry.EndpointPicker.Health.Port != 30003 {
		t.Errorf("nodes of ready pods: got %+v, want 192.0.2.1 and 192.0.2.2 at 30002, health at 30003", d)
	}
	nodes = nil
	if d, _ = export.Decide(s.View(), c, llmPool, export.Pool{}); d.Export != nil || d.Reason != "NoAddress" {
		t.Errorf("no node is known: got %+v, want NoAddress", d)
	}

	pool := strings.Replace(seedPool, "  endpointPickerRef:\n    name: epp\n    port: {number: 9002}\n", "", 1)
	if d := decide(t, c, pool, "", export.Pool{}); d.Export != nil || d.Reason != "NotSupported" ||
		!strings.Contains(d.Message, "PoolExport") {
		t.Errorf("a pool without a picker that is known: got %+v, want NotSupported and PoolExport", d)
	}
	d = decide(t, c, pool, "", export.Pool{Own: decode[inferenceapi.ImportedCluster](t, `
name: another-name
routingMode: EndpointMode
targetPorts: [{number: 9}]
failureMode: FailOpen
podCIDRs: [10.1.0.0/16]
endpointPicker: {name: penstock, pool: example/llm-pool, service: [{addresses: [192.0.2.7], ports: [{number: 9002}]}]}
`)})
	if d.Export == nil {
		t.Fatalf("not exported, want it: %s: %s", d.Reason, d.Message)
	}
	e := d.Export.Entry
	if got := fmt.Sprint(e.Name, e.TargetPortNumber, e.EndpointPicker.Pool, e.EndpointPicker.Service[0].Addresses,
		e.FailureMode, e.PodCIDRs); got != "cluster-a8080example/llm-pool[192.0.2.7]FailOpen[10.1.0.0/16]" {
		t.Errorf("the entry: %s, want %q", got, "cluster-a8080example/llm-pool[192.0.2.7]FailOpen[10.1.0.0/16]")
	}
}
