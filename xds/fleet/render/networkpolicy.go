package render

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// maxOpenPorts bounds the ports of listeners in a NetworkPolicy, removed ones included.
const maxOpenPorts = 256

// networkPolicy lets clients reach listeners, the kubelet the ready port, and nothing else. Ports of removed listeners
// stay open: nothing new listens there, and some network plugins cut a connection that its policy no longer allows,
// which is to continue for the drain time.
func (b *builder) networkPolicy() *networkingv1.NetworkPolicy {
	var open []int32
	add := func(port int32) {
		if len(open) < maxOpenPorts && port != ReadyPort && !slices.Contains(open, port) {
			open = append(open, port)
		}
	}
	for _, p := range b.Ports {
		add(p.Number)
	}
	for _, port := range slices.Concat(b.bootstrapPorts(), b.Open) {
		add(port)
	}
	slices.Sort(open)
	rules := []networkingv1.NetworkPolicyIngressRule{{Ports: policyPorts(ReadyPort)}}
	if len(open) > 0 { // a rule without ports would open all
		listeners := networkingv1.NetworkPolicyIngressRule{Ports: policyPorts(open...), From: or(b.Spec.NetworkPolicy, v1alpha1.FleetNetworkPolicy{}).From}
		rules = append([]networkingv1.NetworkPolicyIngressRule{listeners}, rules...)
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: b.meta(),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: b.selector()},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     rules,
		},
	}
}

func policyPorts(numbers ...int32) (out []networkingv1.NetworkPolicyPort) {
	tcp := corev1.ProtocolTCP
	for _, n := range numbers {
		port := intstr.FromInt32(n)
		out = append(out, networkingv1.NetworkPolicyPort{Protocol: &tcp, Port: &port})
	}
	return out
}

// bootstrapPorts are the ports of listeners in spec.bootstrap, such as one for Prometheus.
func (b *builder) bootstrapPorts() (out []int32) {
	if b.Spec.Bootstrap == nil {
		return nil
	}
	var given struct {
		StaticResources struct {
			Listeners []struct {
				Address struct {
					SocketAddress struct {
						PortValue int32 `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
			} `json:"listeners"`
		} `json:"static_resources"`
	}
	if json.Unmarshal(b.Spec.Bootstrap.Raw, &given) != nil {
		return nil // Objects reports it
	}
	for _, l := range given.StaticResources.Listeners {
		if port := l.Address.SocketAddress.PortValue; port > 0 {
			out = append(out, port)
		}
	}
	return out
}
