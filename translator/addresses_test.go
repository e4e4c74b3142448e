package translator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/resource"
)

// tenant holds all objects that a user of one namespace may write, each with an address that the
// user cannot reach.
const tenant = `
kind: GatewayClass
metadata: {name: penstock}
spec: {controllerName: penstock.dev/gateway-controller}
---
kind: Gateway
metadata: {namespace: edge, name: gw}
spec:
  gatewayClassName: penstock
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
kind: HTTPRoute
metadata: {namespace: mine, name: all}
spec:
  parentRefs: [{namespace: edge, name: gw}]
  rules:
  - backendRefs: [{name: external, port: 80}]
  - backendRefs: [{name: sliced, port: 80}]
  - backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: pool}]
  - backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: picked}]
  - backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: import}]
---
kind: Service
metadata: {namespace: mine, name: external}
spec: {type: ExternalName, externalName: rebind.example, ports: [{port: 80}]}
---
kind: Host
metadata: {name: rebind.example}
Addresses: [$A]
---
kind: Service
metadata: {namespace: mine, name: sliced}
spec: {ports: [{port: 80}]}
---
kind: EndpointSlice
metadata: {namespace: mine, name: sliced-1, labels: {kubernetes.io/service-name: sliced}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: ["$A"]}]
---
kind: InferencePool
metadata: {namespace: mine, name: pool}
spec: {selector: {matchLabels: {app: pool}}, targetPorts: [{number: 80}]}
---
kind: ModelServers
metadata: {namespace: mine, name: servers, labels: {app: pool}}
spec: {servers: [{address: "$A"}, {address: rebind.example}]}
---
kind: InferencePool
metadata: {namespace: mine, name: picked}
spec: {selector: {matchLabels: {app: picked}}, targetPorts: [{number: 80}],
  endpointPickerRef: {name: external, port: {number: 80}}}
---
kind: InferencePoolImport
metadata: {namespace: mine, name: import}
status:
  clusters:
  - {name: parent, routingMode: ParentMode, parents: [{service: [{addresses: ["$A", rebind.example],
      ports: [{number: 80}]}]}]}
  - name: declared
    routingMode: EndpointMode
    targetPortNumber: 80
    endpoints: [{address: "$A"}]
    endpointPicker: {service: [{addresses: [203.0.113.9, "$A"], ports: [{number: 9002}]}]}
  - name: learned
    routingMode: EndpointMode
    targetPortNumber: 80
    podCIDRs: ["::/0", 0.0.0.0/0]
    endpointPicker: {service: [{addresses: [203.0.113.9, rebind.example], ports: [{number: 9002}]}]}
---
kind: Learned
metadata: {namespace: mine, name: import.learned}
Endpoints: ["$E"]
`

func tenantWorld(t *testing.T, address string) []store.Op {
	t.Helper()
	at := address + ":80"
	if strings.Contains(address, ":") {
		at = "[" + address + "]:80"
	}
	tables := map[string]store.Kind{}
	for _, k := range store.Tables() {
		tables[k.Kind()] = k
	}
	var ops []store.Op
	for doc := range strings.SplitSeq(strings.NewReplacer("[$A]", fmt.Sprintf("[%q]", address), "$A", address, "$E",
		at).Replace(tenant), "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatal(err)
		}
		obj := tables[head.Kind].New()
		if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		ops = append(ops, tables[head.Kind].PutObject(obj))
	}
	return ops
}

func endpointsOf(t *testing.T, tr *translator.Translator, out translator.Output) string {
	t.Helper()
	var b strings.Builder
	for _, r := range tr.Resources("edge/gw") {
		if r.Type == resource.Endpoints && !strings.HasPrefix(r.Name, "penstock-") {
			fmt.Fprintln(&b, decoded(t, r))
		}
	}
	for _, p := range out.Pools {
		if p.Pool.Relay != nil {
			fmt.Fprintln(&b, p.Pool.Relay.Pickers)
		}
		fmt.Fprintln(&b, p.Members)
	}
	for _, p := range out.Pickers {
		fmt.Fprintln(&b, p.Addresses)
	}
	return b.String()
}

func kubernetes(allowed ...string) *store.AddressPolicy {
	p := &store.AddressPolicy{Allowed: allowed, Denied: []string{"10.0.0.0/8"}, ExternalName: true, Shared: true,
		Own: "penstock-system/penstock"}
	p.Name = store.OwnAddressPolicy
	return p
}

func TestAddresses_NoWayThroughTheGatewayToWhatATenantCannotReach(t *testing.T) {
	for _, c := range []struct {
		address string
		sliced  bool // an EndpointSlice may have the address
	}{
		{"169.254.169.254", false}, {"127.0.0.1", false}, {"::1", false}, {"0.0.0.0", false}, {"fe80::1", false},
		{"::ffff:169.254.169.254", false},
		{"64:ff9b::a9fe:a9fe", false}, {"2002:7f00:1::1", false}, {"10.96.0.1", false}, {"10.1.2.3", false},
		{"192.0.2.7", false}, {"198.51.100.1", true},
	} {
		s := store.New()
		ops := append(tenantWorld(t, c.address), store.AddressPolicies.Put(kubernetes("203.0.113.0/24")),
			store.Occupants.Put(&store.Occupant{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.7"},
				Endpoints: []string{"other/web"}, Lists: []string{"192.0.2.7"}}))
		if _, err := s.Apply(ops...); err != nil {
			t.Fatal(err)
		}
		tr := translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", Slices: true,
			Pickers: config().Pickers})
		out := tr.Update(s.View(), store.Everything(s.View()))
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		text := endpointsOf(t, tr, out)
		plain := strings.TrimPrefix(c.address, "::ffff:")
		if n := strings.Count(text, plain+"\"") + strings.Count(text, plain+":") +
			strings.Count(text, plain+"]"); n > 0 && !c.sliced || n > 1 {
			t.Errorf("%s is an endpoint %d times, want none, or one if slices may name it:\n%s", c.address, n, text)
		}
		if !strings.Contains(text, "203.0.113.9") {
			t.Errorf("an allowed address beside %s is no endpoint, want one", c.address)
		}
		found := map[string]string{} // error findings, by the owner's kind
		for _, r := range out.Reports {
			for _, f := range r.Findings {
				if f.Severity == report.Error {
					found[r.Owner.Kind] += f.Field + ": " + f.Problem + "; " + f.Fix + "\n"
				}
			}
			if r.Owner.Kind == "ModelServers" && report.Find(r.Conditions, "ResolvedRefs").
				Reason != "AddressNotAllowed" {
				t.Errorf("ModelServers: got %+v, want ResolvedRefs with reason AddressNotAllowed", r.Conditions)
			}
			if r.Owner.Kind == "HTTPRoute" && report.Find(r.Parents[0].Conditions, "ResolvedRefs").
				Reason != "AddressNotAllowed" {
				t.Errorf("HTTPRoute: got %+v, want ResolvedRefs with reason AddressNotAllowed", r.Parents[0].Conditions)
			}
		}
		for kind, fields := range map[string][]string{
			"HTTPRoute": {"spec.rules[0].backendRefs[0]",
				"host name rebind.example resolves to " + c.address},
			"ModelServers":  {"spec.servers[0].address", "spec.servers[1].address"},
			"InferencePool": {"spec.endpointPickerRef.name"},
			"InferencePoolImport": {"status.clusters[0].parents[0].service[0].addresses[0]",
				"parents[0].service[0].addresses[1]", "status.clusters[1].endpoints[0].address",
				"status.clusters[1].endpointPicker.service[0].addresses[1]",
				"status.clusters[2].endpointPicker.service[0].addresses[1]"},
			"EndpointSlice": {"endpoints: address " + c.address},
		} {
			for _, field := range fields {
				if !strings.Contains(found[kind], field) && !(kind == "EndpointSlice" && c.sliced) {
					t.Errorf("%s: want a finding of %s about %s, got:\n%s", c.address, kind, field, found[kind])
				}
			}
		}
	}
}

func TestAddresses_ARebindingNameLosesItsEndpointsAndReturns(t *testing.T) {
	s := store.New()
	if _, err := s.Apply(append(tenantWorld(t, "203.0.113.5"),
		store.AddressPolicies.Put(kubernetes("203.0.113.0/24")))...); err != nil {
		t.Fatal(err)
	}
	tr := translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", Slices: true,
		Pickers: config().Pickers})
	tr.Update(s.View(), store.Everything(s.View()))
	serves := func(address string) bool {
		for _, r := range tr.Resources("edge/gw") {
			if r.Type == resource.Endpoints && r.Name == "service/mine/external/80" {
				return strings.Contains(decoded(t, r), address)
			}
		}
		t.Fatal("no endpoints of the Service")
		return false
	}
	if !serves("203.0.113.5") {
		t.Error("an allowed address is no endpoint")
	}
	for _, address := range []string{"169.254.169.254", "203.0.113.6"} {
		rev, err := s.Apply(
			store.Hosts.Put(&store.Host{ObjectMeta: metav1.ObjectMeta{Name: "rebind.example"},
				Addresses: []string{address}}))
		if err != nil {
			t.Fatal(err)
		}
		tr.Update(s.View(), rev.Changes)
		if want := address == "203.0.113.6"; serves(address) != want || serves("203.0.113.5") {
			t.Errorf("the name resolves to %s, which is an endpoint: %t", address, !want)
		}
	}
}

func TestAddresses_ExternalNameIsOffUnlessAllowed(t *testing.T) {
	s := store.New()
	policy := kubernetes("0.0.0.0/0")
	policy.ExternalName = false
	if _, err := s.Apply(append(tenantWorld(t, "203.0.113.5"), store.AddressPolicies.Put(policy))...); err != nil {
		t.Fatal(err)
	}
	tr := translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", Slices: true,
		Pickers: config().Pickers})
	out := tr.Update(s.View(), store.Everything(s.View()))
	for _, r := range out.Reports {
		var c *report.Condition
		switch r.Owner.Kind {
		case "HTTPRoute":
			c = report.Find(r.Parents[0].Conditions, "ResolvedRefs")
		case "InferencePool":
			if r.Owner.Name == "picked" {
				c = report.Find(r.Parents[0].Conditions, "ResolvedRefs")
			}
		}
		if c != nil &&
			(c.Status != report.False || !strings.Contains(c.Message, "ExternalName") ||
				!strings.Contains(c.Message, "--allow-external-name")) {
			t.Errorf("%s: got %+v, want False, about ExternalName, with the flag that allows it", r.Owner, c)
		}
	}
	for _, r := range tr.Resources("edge/gw") {
		if r.Name == "service/mine/external/80" {
			t.Errorf("%s exists, want no such resource", r.Ref)
		}
	}
}

func TestAddresses_EndpointsThatKubernetesListsNeedNoRange(t *testing.T) {
	s := store.New()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "sliced"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "sliced-1",
			Labels: map[string]string{"kubernetes.io/service-name": "sliced",
				"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
		Ports:     []discoveryv1.EndpointPort{{Port: new(int32(80))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}},
	}
	ops := append(tenantWorld(t, "169.254.169.254"), store.AddressPolicies.Put(kubernetes()),
		store.Services.Put(service), store.EndpointSlices.Put(slice))
	if _, err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
	tr := translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", Slices: true,
		Pickers: config().Pickers})
	out := tr.Update(s.View(), store.Everything(s.View()))
	if text := endpointsOf(t, tr, out); !strings.Contains(text, "10.1.2.3") {
		t.Errorf("a pod behind its Service is no endpoint, want 10.1.2.3:\n%s", text)
	}
	// Without a selector, Kubernetes does not list the Service's endpoints, so a user may have set
	// the label managed-by.
	service = service.DeepCopy()
	service.Spec.Selector = nil
	rev, err := s.Apply(store.Services.Put(service))
	if err != nil {
		t.Fatal(err)
	}
	out = tr.Update(s.View(), rev.Changes)
	if text := endpointsOf(t, tr, out); strings.Contains(text, "10.1.2.3") {
		t.Errorf("a forged mark makes an endpoint in a denied range, want no 10.1.2.3:\n%s", text)
	}
}

func TestHostname_OnlyNamesInUseAreResolved(t *testing.T) {
	s := store.New()
	if _, err := s.Apply(append(tenantWorld(t, "203.0.113.5"), store.AddressPolicies.Put(kubernetes("203.0.113.0/24")),
		store.Hosts.Delete("rebind.example"))...); err != nil {
		t.Fatal(err)
	}
	tr := translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", Slices: true,
		Pickers: config().Pickers})
	out := tr.Update(s.View(), store.Everything(s.View()))
	if !slices.Equal(out.Names, []string{"rebind.example"}) {
		t.Errorf("used: %v, want %v", out.Names, []string{"rebind.example"})
	}
	update := func(ops ...store.Op) translator.Output {
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		return tr.Update(s.View(), rev.Changes)
	}
	if out = update(store.HTTPRoutes.Delete("mine/all"), store.ModelServers.Delete("mine/servers"),
		store.InferencePools.Delete("mine/picked")); !slices.Equal(out.NamesGone, []string{"rebind.example"}) {
		t.Errorf("no longer used: got %v, want rebind.example", out.NamesGone)
	}
	if out = update(store.InferencePools.Delete("mine/pool")); len(out.Names) > 0 {
		t.Errorf("used: %v, want none", out.Names)
	}
	unused := &v1alpha1.ModelServers{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "unused"},
		Spec: v1alpha1.ModelServersSpec{Servers: []v1alpha1.ModelServer{{Address: "unused.example"}}}}
	if out = update(store.ModelServers.Put(unused)); len(out.Names) > 0 {
		t.Errorf("a server that no pool selects: got the names %v, want none", out.Names)
	}
	for _, r := range out.Reports {
		for _, f := range r.Findings {
			if f.Severity == report.Error {
				t.Errorf("a name that nothing uses is an error, want none: %s", f)
			}
		}
	}
}

func decoded(t *testing.T, r *resource.Resource) string {
	t.Helper()
	var load endpointv3.ClusterLoadAssignment
	if err := proto.Unmarshal(r.Body(), &load); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range load.Endpoints {
		for _, e := range l.LbEndpoints {
			if a := e.GetEndpoint().GetAddress().GetSocketAddress(); a != nil {
				out = append(out, fmt.Sprintf("%q:%d", a.GetAddress(), a.GetPortValue()))
			}
		}
	}
	return r.Name + " " + strings.Join(out, " ")
}
