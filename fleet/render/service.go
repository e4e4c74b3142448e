package render

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func (b *builder) service() *corev1.Service {
	given := or(b.Spec.Service, v1alpha1.FleetService{})
	meta := b.meta()
	meta.Annotations = b.annotations(given.Annotations)
	spec := corev1.ServiceSpec{
		Type: cmp.Or(given.Type, corev1.ServiceTypeLoadBalancer), Selector: b.selector(),
		ExternalTrafficPolicy: given.ExternalTrafficPolicy,
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		spec.LoadBalancerClass = given.LoadBalancerClass
	}
	if spec.Type == corev1.ServiceTypeClusterIP {
		spec.ExternalTrafficPolicy = ""
	}
	for _, p := range b.Ports {
		spec.Ports = append(spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("%s-%d", p.Name, p.Number), Port: p.Number, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(p.Number),
		})
	}
	b.address(&spec)
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta, Spec: spec}
}

// address asks for the Gateway's static addresses: the first from whoever gives a Service of this type its address, the
// others as addresses that the network brings to the nodes.
func (b *builder) address(spec *corev1.ServiceSpec) {
	static := StaticAddresses(b.Gateway)
	if len(static) > 0 {
		switch spec.Type {
		case corev1.ServiceTypeLoadBalancer:
			spec.LoadBalancerIP, static = static[0], static[1:]
		case corev1.ServiceTypeClusterIP:
			spec.ClusterIP, static = static[0], static[1:]
		}
	}
	spec.ExternalIPs = static
}

// StaticAddresses are the IP addresses that a Gateway asks for, in its order, without doubles. One without a value asks for
// any, which is what everybody gets.
func StaticAddresses(gw *gatewayv1.Gateway) (out []string) {
	seen := map[string]bool{"": true}
	for _, a := range gw.Spec.Addresses {
		if (a.Type == nil || *a.Type == gatewayv1.IPAddressType) && !seen[a.Value] {
			seen[a.Value] = true
			out = append(out, a.Value)
		}
	}
	return out
}
