package render

import (
	"encoding/json"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const maxOpenPorts = 256

// Ports of removed listeners stay open: some network plugins would cut connections during the drain
// time.
func (b *builder) networkPolicy() *networkingv1.NetworkPolicy {
	ready := Socket{Number: ReadyPort}
	var open []Socket
	add := func(s Socket) {
		if len(open) < maxOpenPorts && s != ready && !slices.Contains(open, s) {
			open = append(open, s)
		}
	}
	for _, p := range b.Ports {
		add(p.Socket())
	}
	for _, s := range slices.Concat(b.bootstrapPorts(), b.Open) {
		add(s)
	}
	slices.SortFunc(open, func(a, b Socket) int { return Port{a.Number, a.UDP, ""}.Compare(Port{b.Number, b.UDP, ""}) })
	rules := []networkingv1.NetworkPolicyIngressRule{{Ports: policyPorts(ready)}}
	if len(open) > 0 { // a rule without ports would open all ports
		listeners := networkingv1.NetworkPolicyIngressRule{
			Ports: policyPorts(open...), From: or(b.Spec.NetworkPolicy, v1alpha1.FleetNetworkPolicy{}).From,
		}
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

func policyPorts(sockets ...Socket) (out []networkingv1.NetworkPolicyPort) {
	for _, s := range sockets {
		protocol, port := s.Protocol(), intstr.FromInt32(s.Number)
		out = append(out, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &port})
	}
	return out
}

func (b *builder) bootstrapPorts() (out []Socket) {
	if b.Spec.Bootstrap == nil {
		return nil
	}
	var given struct {
		StaticResources struct {
			Listeners []struct {
				Address struct {
					SocketAddress struct {
						Protocol  string `json:"protocol"`
						PortValue int32  `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
			} `json:"listeners"`
		} `json:"static_resources"`
	}
	if json.Unmarshal(b.Spec.Bootstrap.Raw, &given) != nil {
		return nil
	}
	for _, l := range given.StaticResources.Listeners {
		if at := l.Address.SocketAddress; at.PortValue > 0 {
			out = append(out, Socket{Number: at.PortValue, UDP: at.Protocol == "UDP"})
		}
	}
	return out
}
