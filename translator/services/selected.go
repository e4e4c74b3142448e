package services

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/penstock-project/penstock/discovery/store"
)

func selected(r store.Reader, svc *corev1.Service, port *corev1.ServicePort) (out []netip.AddrPort) {
	for _, m := range choose(r, svc.Namespace, svc.Spec.Selector, target(svc, port)) {
		if !m.Draining {
			out = append(out, m.Address)
		}
	}
	return out
}

func target(svc *corev1.Service, port *corev1.ServicePort) targets {
	to := targets{unready: svc.Spec.PublishNotReadyAddresses, transport: transportOf(port.Protocol)}
	switch {
	case port.TargetPort.Type == intstr.String && port.TargetPort.StrVal != "":
		to.name = port.TargetPort.StrVal
	case port.TargetPort.IntVal > 0:
		to.numbers = []uint16{uint16(port.TargetPort.IntVal)}
	default:
		to.numbers = []uint16{uint16(port.Port)}
	}
	return to
}

type targets struct {
	numbers   []uint16
	name      string
	unready   bool
	transport corev1.Protocol
}

func (t targets) of(pod *corev1.Pod) []uint16 {
	if t.name == "" {
		return t.numbers
	}
	for _, c := range running(pod) {
		for _, p := range c.Ports {
			if p.Name == t.name && transportOf(p.Protocol) == t.transport {
				return []uint16{uint16(p.ContainerPort)}
			}
		}
	}
	return nil
}

// running returns a Pod's containers and sidecars: init containers that always restart.
func running(pod *corev1.Pod) []corev1.Container {
	out := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = append(out, c)
		}
	}
	return out
}

// Unnamed lists the ports, as indexes of spec.ports, whose targetPort is a name that no selected
// Pod has. The list is empty if the Service has EndpointSlices or selects no Pods.
func Unnamed(r store.Reader, svc *corev1.Service) (out []int) {
	if len(store.EndpointSlices.By(r, store.ByService, store.ID(svc))) > 0 {
		return nil
	}
	every := targets{numbers: []uint16{1}, unready: true}
	for i := range svc.Spec.Ports {
		to := target(svc, &svc.Spec.Ports[i])
		to.unready = true
		if to.name != "" && len(choose(r, svc.Namespace, svc.Spec.Selector, to)) == 0 &&
			len(choose(r, svc.Namespace, svc.Spec.Selector, every)) > 0 {
			out = append(out, i)
		}
	}
	return out
}
