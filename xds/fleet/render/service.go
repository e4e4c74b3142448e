package render

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

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
		Type: serviceType(b.Spec), Selector: b.selector(),
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
			Name: fmt.Sprintf("%s-%d", p.Name, p.Number), Port: p.Number, Protocol: p.Socket().Protocol(),
			TargetPort: intstr.FromInt32(p.Number),
		})
	}
	b.address(&spec)
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta, Spec: spec}
}

func (b *builder) address(spec *corev1.ServiceSpec) {
	own, external, _ := Assign(b.Gateway, b.Spec, b.ExternalIPs)
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		spec.LoadBalancerIP = own
	case corev1.ServiceTypeClusterIP:
		spec.ClusterIP = own
	}
	spec.ExternalIPs = external
}

// Assign divides a Gateway's static addresses. own is requested from the Service's provider.
// external is accepted by nodes, and within the allowed ranges: otherwise a user who may write a
// Gateway could receive the traffic of any address (CVE-2020-8554). outside has the rest.
func Assign(gw *gatewayv1.Gateway, spec *v1alpha1.EnvoyFleetSpec, allowed []netip.Prefix) (own string, external,
	outside []string) {
	static := StaticAddresses(gw)
	if serviceType(spec) != corev1.ServiceTypeNodePort && len(static) > 0 {
		own, static = static[0], static[1:]
	}
	for _, a := range static {
		ip, err := netip.ParseAddr(a)
		if err == nil && slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) }) {
			external = append(external, a)
		} else {
			outside = append(outside, a)
		}
	}
	return own, external, outside
}

func serviceType(spec *v1alpha1.EnvoyFleetSpec) corev1.ServiceType {
	return cmp.Or(or(spec.Service, v1alpha1.FleetService{}).Type, corev1.ServiceTypeLoadBalancer)
}

// StaticAddresses returns the requested IP addresses, without duplicates. An address without a
// value requests any.
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
