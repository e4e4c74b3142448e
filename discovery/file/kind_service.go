package file

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/discovery/store"
)

// serviceKind keeps the status, which has a load balancer's address for other clusters.
func serviceKind() *kind {
	return &kind{table: store.Services, versions: []version{{"v1", nil}}, status: true, check: checkService}
}

func checkService(o store.Object) []mistake {
	s := o.(*corev1.Service)
	var c checks
	c.oneOf("spec.type", string(s.Spec.Type), "", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		c.host("spec.externalName", s.Spec.ExternalName)
	} else if len(s.Spec.Ports) == 0 && s.Spec.ClusterIP != corev1.ClusterIPNone {
		c.wrong("spec.ports", "is missing", "list at least one port, such as {port: 80}")
	}
	if ip := s.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
		c.ip("spec.clusterIP", ip)
	}
	names := map[string]bool{}
	for i, p := range s.Spec.Ports {
		field := at("spec.ports", i)
		c.port(field+".port", p.Port)
		c.oneOf(field+".protocol", string(p.Protocol), "", "TCP", "UDP", "SCTP")
		switch {
		case p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != 0:
			c.port(field+".targetPort", p.TargetPort.IntVal)
		case p.TargetPort.Type == intstr.String && len(validation.IsValidPortName(p.TargetPort.StrVal)) > 0:
			c.wrong(field+".targetPort", "is neither a port number nor a port's name: "+quote(p.TargetPort.StrVal),
				"write 1 to 65535 without quotes, or the name of a container port")
		}
		switch {
		case p.Name == "" && len(s.Spec.Ports) > 1:
			c.wrong(field+".name", "is missing", "give each port of a Service with several ports a name")
		case names[p.Name]:
			c.wrong(field+".name", "is the name of another port too: "+quote(p.Name), "give each port its own name")
		}
		names[p.Name] = true
	}
	return c.found
}
