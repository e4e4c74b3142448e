package services_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

func view(t *testing.T, ops ...store.Op) *store.View {
	t.Helper()
	s := store.New()
	ops = append([]store.Op{store.AddressPolicies.Put(addresses.Unrestricted())}, ops...)
	if _, err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
	return s.View()
}

func service(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.ServiceSpec{Ports: ports}}
}

func slice(name string, port int32, endpoints ...discoveryv1.Endpoint) store.Op {
	return store.EndpointSlices.Put(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: &port}}, Endpoints: endpoints,
	})
}

func at(address string, ready, serving bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving}}
}

func expect(t *testing.T, got []netip.AddrPort, want ...string) {
	t.Helper()
	var texts []string
	for _, a := range got {
		texts = append(texts, a.String())
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got %v, want %v", texts, want)
	}
}

func addressesOf(r store.Reader, svc *corev1.Service, port int32, slicesOnly bool) []netip.AddrPort {
	out, _ := services.Addresses(r, svc, port, corev1.ProtocolTCP, slicesOnly)
	return out
}

func TestEndpointSlice_TerminatingEndpointsServeOnlyIfNoneIsReady(t *testing.T) {
	terminating := at("10.0.0.9", false, true)
	v := view(t, slice("a", 8080, at("10.0.0.2", true, true), terminating),
		slice("b", 8081, at("10.0.0.1", true, true), at("10.0.0.3", false, false)))
	expect(t, services.Endpoints(v, "ns/web", "http"), "10.0.0.1:8081", "10.0.0.2:8080")
	expect(t, services.Endpoints(v, "ns/web", "grpc"))
	v = view(t, slice("a", 8080, terminating, at("10.0.0.3", false, false)))
	expect(t, services.Endpoints(v, "ns/web", "http"), "10.0.0.9:8080")
}

func TestEndpointSlice_UnknownReadinessCountsAsReady(t *testing.T) {
	v := view(t, slice("a", 8080, discoveryv1.Endpoint{Addresses: []string{"10.0.0.2", "not an address"}}))
	expect(t, services.Endpoints(v, "ns/web", "http"), "10.0.0.2:8080")
}

func TestService_WithoutEndpointSlicesSelectsItsEndpoints(t *testing.T) {
	web := service("web", corev1.ServicePort{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)})
	web.Spec.Selector = map[string]string{"app": "web"}
	labels := map[string]string{"app": "web"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", Labels: labels},
		Status: corev1.PodStatus{PodIP: "10.0.0.2"}}
	servers := &v1alpha1.ModelServers{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "servers", Labels: labels},
		Spec: v1alpha1.ModelServersSpec{
			Servers: []v1alpha1.ModelServer{{Address: "10.0.0.1", Ports: []int32{9000}},
				{Address: "10.0.0.3", Draining: true}},
		}}
	v := view(t, store.Pods.Put(pod), store.ModelServers.Put(servers))
	expect(t, addressesOf(v, web, 80, false), "10.0.0.1:9000", "10.0.0.2:8080")
	expect(t, addressesOf(v, web, 81, false))
	expect(t, addressesOf(v, web, 80, true)) // with EndpointSlices, the selector is not used
	web.Spec.Selector = nil
	expect(t, addressesOf(v, web, 80, false))
}

func TestModelServers_ServersShareLabelsUnlessTheyHaveOwn(t *testing.T) {
	labels := map[string]string{"app": "web"}
	v := view(t, store.ModelServers.Put(&v1alpha1.ModelServers{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "servers", Labels: labels},
		Spec: v1alpha1.ModelServersSpec{Servers: []v1alpha1.ModelServer{
			{Address: "10.0.0.1"}, {Address: "10.0.0.2"}, {Address: "10.0.0.3", Labels: map[string]string{"gpu": "a"}},
		}},
	}))
	all := services.Select(v, "ns", labels, []uint16{80})
	if len(all) != 3 {
		t.Fatalf("%d servers, want 3", len(all))
	}
	if at := func(i int) uintptr { return reflect.ValueOf(all[i].Labels).Pointer() }; at(0) != at(1) {
		t.Error("each server has a copy of its object's labels")
	}
	if own := all[2].Labels; len(own) != 2 || own["gpu"] != "a" || len(labels) != 1 {
		t.Errorf("a server with own labels has %v, its object %v; want 2 with gpu a, and 1", own, labels)
	}
}

func TestService_NamedTargetPortIsThatOfEachPod(t *testing.T) {
	web := service("web", corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("api")})
	web.Spec.Selector = map[string]string{"app": "web"}
	sidecar := corev1.ContainerRestartPolicyAlways
	named := func(name, ip string, spec corev1.PodSpec) store.Op {
		return store.Pods.Put(
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: web.Spec.Selector},
				Spec: spec, Status: corev1.PodStatus{PodIP: ip}})
	}
	with := func(name string, port int32, protocol corev1.Protocol) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: name, ContainerPort: port, Protocol: protocol}}
	}
	v := view(t,
		named("a", "10.0.0.1", corev1.PodSpec{Containers: []corev1.Container{{Ports: with("api", 8001, "")}}}),
		named("b", "10.0.0.2",
			corev1.PodSpec{
				Containers: []corev1.Container{{Ports: with("api", 53, "UDP")}, {Ports: with("api", 8002, "TCP")}},
			}),
		named("c", "10.0.0.3", corev1.PodSpec{Containers: []corev1.Container{{Ports: with("other", 8003, "")}}}),
		named("d", "10.0.0.4",
			corev1.PodSpec{
				InitContainers: []corev1.Container{{Ports: with("api", 8004, ""), RestartPolicy: &sidecar}},
			}),
		named("e", "10.0.0.5", corev1.PodSpec{InitContainers: []corev1.Container{{Ports: with("api", 8005, "")}}}))
	expect(t, addressesOf(v, web, 80, false), "10.0.0.1:8001", "10.0.0.2:8002", "10.0.0.4:8004")
	if unnamed := services.Unnamed(v, web); len(unnamed) > 0 {
		t.Errorf("unnamed ports %v, want none", unnamed)
	}
	web.Spec.Ports[0].TargetPort = intstr.FromString("apx")
	expect(t, addressesOf(v, web, 80, false))
	if unnamed := services.Unnamed(v, web); !slices.Equal(unnamed, []int{0}) {
		t.Errorf("unnamed ports %v, want %v", unnamed, []int{0})
	}
}

func TestService_PublishesPodsThatAreNotReadyWhereItIsWritten(t *testing.T) {
	web := service("web", corev1.ServicePort{Port: 80})
	web.Spec.Selector = map[string]string{"app": "web"}
	unready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	v := view(t,
		store.Pods.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: web.Spec.Selector},
			Status: corev1.PodStatus{PodIP: "10.0.0.1", Conditions: unready}}))
	expect(t, addressesOf(v, web, 80, false))
	web.Spec.PublishNotReadyAddresses = true
	expect(t, addressesOf(v, web, 80, false), "10.0.0.1:80")
}

func TestEndpointSlice_PortsOfUDPAreNoEndpoints(t *testing.T) {
	port, udp := int32(8080), corev1.ProtocolUDP
	v := view(t, store.EndpointSlices.Put(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports:     []discoveryv1.EndpointPort{{Name: new("http"), Port: &port, Protocol: &udp}},
		Endpoints: []discoveryv1.Endpoint{at("10.0.0.1", true, true)},
	}))
	expect(t, services.Endpoints(v, "ns/web", "http"))
}

// A DNS server has one port number for TCP and UDP. The Service's two ports must stay different.
func TestService_PortOfTCPAndUDPWithOneNumberAreTwo(t *testing.T) {
	udp, tcp := corev1.ProtocolUDP, corev1.ProtocolTCP
	dns := service("web",
		corev1.ServicePort{Name: "dns", Port: 53, Protocol: udp, TargetPort: intstr.FromString("dns")},
		corev1.ServicePort{Name: "dns-tcp", Port: 53, TargetPort: intstr.FromString("dns")})
	all := func(r store.Reader, transport corev1.Protocol) []netip.AddrPort {
		out, _ := services.Addresses(r, dns, 53, transport, false)
		return out
	}
	port := func(name string, port int32, protocol *corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: &port, Protocol: protocol}
	}
	v := view(t, store.EndpointSlices.Put(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports:     []discoveryv1.EndpointPort{port("dns", 5353, &udp), port("dns-tcp", 5354, &tcp)},
		Endpoints: []discoveryv1.Endpoint{at("10.0.0.1", true, true)},
	}))
	expect(t, all(v, udp), "10.0.0.1:5353")
	expect(t, all(v, tcp), "10.0.0.1:5354")

	dns.Spec.Selector = map[string]string{"app": "dns"}
	v = view(t, store.Pods.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: dns.Spec.Selector},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "dns", ContainerPort: 5354}, {Name: "dns", ContainerPort: 5353, Protocol: udp}}}}},
		Status: corev1.PodStatus{PodIP: "10.0.0.1"},
	}))
	expect(t, all(v, udp), "10.0.0.1:5353")
	expect(t, all(v, tcp), "10.0.0.1:5354")
	dns.Spec.Ports = dns.Spec.Ports[:1]
	expect(t, all(v, tcp))
}

func TestService_ExternalNameFollowsItsHost(t *testing.T) {
	web := service("web", corev1.ServicePort{Port: 443})
	web.Spec.Type, web.Spec.ExternalName = corev1.ServiceTypeExternalName, "Api.Example.com"
	host := &store.Host{ObjectMeta: metav1.ObjectMeta{Name: "api.example.com"},
		Addresses: []string{"10.1.0.1", "10.1.0.2"}}
	v := view(t, store.Hosts.Put(host))
	expect(t, addressesOf(v, web, 443, true), "10.1.0.1:443", "10.1.0.2:443")
}

// A text that is no host name must not be looked up, because a Host without a name cannot be
// stored.
func TestHost_TextThatIsNoNameIsNeverLookedUp(t *testing.T) {
	for _, text := range []string{"", ".", "a..b", "a b", "a\nb", "ä", "127.0.0.1:80", strings.Repeat("a", 64),
		strings.Repeat("a.", 127) + "a"} {
		r := &reads{Reader: view(t)}
		for _, host := range []services.Host{services.Lookup(r, text), services.Mention(r, text)} {
			if host.Outside == "" || len(host.Addresses) > 0 {
				t.Errorf("%q: got %+v, want it outside, without addresses", text, host)
			}
		}
		if len(r.hosts) > 0 {
			t.Errorf("%q makes the names %q used, want none", text, r.hosts)
		}
	}
	for _, text := range []string{"localhost", "a_b.example.com", "example.com.", "10.1",
		strings.Repeat("a.", 126) + "a"} {
		r := &reads{Reader: view(t)}
		if host := services.Lookup(r, text); host.Outside != "" || len(r.hosts) != 1 {
			t.Errorf("%q: got %+v, and the names %q are used; want it allowed, and 1", text, host, r.hosts)
		}
	}
}

type reads struct {
	store.Reader
	hosts []string
}

func (r *reads) Rows(table, index, key string) store.Rows {
	if table == store.Hosts.Kind() {
		r.hosts = append(r.hosts, key)
	}
	return r.Reader.Rows(table, index, key)
}

func TestAppProtocol_NamesTheProtocolOfAPort(t *testing.T) {
	for _, c := range []struct {
		app, kind string
		secured   bool
		want      model.Protocol // "" if the route cannot use the port
	}{
		{"", "HTTPRoute", false, model.HTTP1}, {"", "GRPCRoute", false, model.H2C}, {"", "TCPRoute", false, model.TCP},
		{"http", "GRPCRoute", false, ""}, {"kubernetes.io/h2c", "HTTPRoute", false, model.H2C},
		{"GRPC", "GRPCRoute", false, model.H2C},
		{"https", "HTTPRoute", false, ""}, {"https", "HTTPRoute", true, model.HTTP1},
		{"https", "TLSRoute", false, model.TCP},
		{"redis", "HTTPRoute", false, ""},
	} {
		port := &corev1.ServicePort{Port: 80}
		if c.app != "" {
			port.AppProtocol = &c.app
		}
		got, ok := services.Protocol(port, c.kind, c.secured)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%+v: got %q, %t; want %q", c, got, ok, c.want)
		}
	}
	if _, ok := services.Protocol(&corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}, "TCPRoute", false); ok {
		t.Error("a route of TCP uses a port of UDP")
	}
	for _, p := range []corev1.ServicePort{{Port: 53}, {Port: 53, Protocol: corev1.ProtocolTCP},
		{Port: 53, Protocol: corev1.ProtocolSCTP}} {
		if _, ok := services.Protocol(&p, "UDPRoute", false); ok {
			t.Errorf("a route of UDP uses a port of %q, want none", p.Protocol)
		}
	}
	if got, ok := services.Protocol(&corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}, "UDPRoute",
		false); !ok || got != model.UDP {
		t.Errorf("a route of UDP: got %q, %t; want %q", got, ok, model.UDP)
	}
}
