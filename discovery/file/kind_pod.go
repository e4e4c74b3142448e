package file

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// podKind keeps the status, which has the Pod's address and readiness.
func podKind() *kind {
	return &kind{table: store.Pods, versions: []version{{"v1", nil}}, status: true, check: checkPod}
}

func checkPod(o store.Object) []mistake {
	p := o.(*corev1.Pod)
	var c checks
	if p.Status.PodIP != "" {
		c.ip("status.podIP", p.Status.PodIP)
	}
	for i, ip := range p.Status.PodIPs {
		c.ip(at("status.podIPs", i)+".ip", ip.IP)
	}
	for i, container := range p.Spec.Containers {
		for j, port := range container.Ports {
			c.port(at(at("spec.containers", i)+".ports", j)+".containerPort", port.ContainerPort)
		}
	}
	return c.found
}
