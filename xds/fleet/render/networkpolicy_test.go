package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

// rules describes a NetworkPolicy's rules, as "ports from N peers"; nil without NetworkPolicy.
func rules(t *testing.T, change func(*render.Fleet)) (out []string) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/plain.txtar")
	if err != nil {
		t.Fatal(err)
	}
	f := read(t, archive)
	f.Spec = deepcopy.Of(f.Spec)
	f.Ports = []render.Port{{Number: 80, Name: "http"}, {Number: 443, Name: "https"}}
	change(&f)
	objects, err := render.Objects(settings, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		policy, ok := o.(*networkingv1.NetworkPolicy)
		if !ok {
			continue
		}
		for _, rule := range policy.Spec.Ingress {
			var ports []string
			for _, p := range rule.Ports {
				text := p.Port.String()
				if *p.Protocol == corev1.ProtocolUDP {
					text += "/UDP"
				}
				ports = append(ports, text)
			}
			out = append(out, fmt.Sprintf("%s from %d peers", strings.Join(ports, " "), len(rule.From)))
		}
	}
	return out
}

func TestNetworkPolicy_OpensListenersOnly(t *testing.T) {
	ready := fmt.Sprintf("%d from 0 peers", render.ReadyPort)
	for _, tt := range []struct {
		name   string
		change func(*render.Fleet)
		want   []string
	}{
		{"all clients", func(*render.Fleet) {}, []string{"80 443 from 0 peers", ready}},
		{"no listener", func(f *render.Fleet) { f.Ports = nil }, []string{ready}},
		{"a removed listener drains", func(f *render.Fleet) { f.Open = []render.Socket{{Number: 443}, {Number: 8080}} },
			[]string{"80 443 8080 from 0 peers", ready}},
		{"UDP and TCP on one port", func(f *render.Fleet) {
			f.Ports = []render.Port{{Number: 53, UDP: true, Name: "udp"}, {Number: 53, Name: "tcp"}}
			f.Open = []render.Socket{{Number: 53, UDP: true}, {Number: 99, UDP: true}}
		}, []string{"53 53/UDP 99/UDP from 0 peers", ready}},
		{"a listener of UDP in bootstrap", func(f *render.Fleet) {
			f.Spec.Bootstrap = &runtime.RawExtension{Raw: []byte(`{"static_resources":{"listeners":[{"name":"udp",
				"address":{"socket_address":{"protocol":"UDP","address":"0.0.0.0","port_value":19001}}}]}}`)}
		}, []string{"80 443 19001/UDP from 0 peers", ready}},
		{"a listener in bootstrap", func(f *render.Fleet) {
			f.Spec.Bootstrap = &runtime.RawExtension{
				Raw: []byte(
					`{"static_resources":{"listeners":[{"name":"metrics","address":{"socket_address":{"address":"0.0.0.0","port_value":19001}}}]}}`),
			}
		}, []string{"80 443 19001 from 0 peers", ready}},
		{"some clients", func(f *render.Fleet) {
			f.Spec.NetworkPolicy = &v1alpha1.FleetNetworkPolicy{
				From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}},
			}
		}, []string{"80 443 from 1 peers", ready}},
		{"none", func(f *render.Fleet) {
			f.Spec.NetworkPolicy = &v1alpha1.FleetNetworkPolicy{Mode: v1alpha1.NetworkPolicyNone}
		}, nil},
	} {
		if diff := cmp.Diff(tt.want, rules(t, tt.change)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
