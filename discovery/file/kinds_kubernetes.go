package file

import (
	"encoding/base64"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/penstock-project/penstock/translator/certificates"
)

func checkService(c *checks, s *corev1.Service) {
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
}

func checkServiceImport(c *checks, s *mcsv1beta1.ServiceImport) {
	for i, ip := range s.Spec.IPs {
		c.ip(at("spec.ips", i), ip)
	}
	for i, p := range s.Spec.Ports {
		c.port(at("spec.ports", i)+".port", p.Port)
	}
}

func checkEndpointSlice(c *checks, s *discoveryv1.EndpointSlice) {
	c.oneOf("addressType", string(s.AddressType), "IPv4", "IPv6", "FQDN")
	for i, e := range s.Endpoints {
		field := at("endpoints", i) + ".addresses"
		if len(e.Addresses) == 0 {
			c.wrong(field, "is missing", "write at least one address")
		}
		for j, a := range e.Addresses {
			if s.AddressType == discoveryv1.AddressTypeFQDN {
				c.host(at(field, j), a)
			} else {
				c.ip(at(field, j), a)
			}
		}
	}
	for i, p := range s.Ports {
		field := at("ports", i)
		if p.Port != nil {
			c.port(field+".port", *p.Port)
		}
		if p.Protocol != nil {
			c.oneOf(field+".protocol", string(*p.Protocol), "TCP", "UDP", "SCTP")
		}
	}
}

func checkPod(c *checks, p *corev1.Pod) {
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
}

func hideValues(errs field.ErrorList) (own []mistake, rest field.ErrorList) {
	for _, e := range errs {
		if top, _, below := strings.Cut(e.Field, "."); below && (top == "data" || top == "stringData") {
			own = append(own,
				wrong(e.Field, "is not base64", "write the value's base64 in data, or its plain text in stringData"))
			continue
		}
		rest = append(rest, e)
	}
	return own, rest
}

func stringDataToData(d *draft) {
	plain, ok := d.obj["stringData"].(map[string]any)
	if !ok {
		return
	}
	data, ok := d.obj["data"].(map[string]any)
	if !ok {
		if d.obj["data"] != nil {
			return
		}
		data = map[string]any{}
	}
	for _, k := range sortedKeys(plain) {
		s, ok := plain[k].(string)
		if !ok {
			return
		}
		data[k] = base64.StdEncoding.EncodeToString([]byte(s))
		d.move(join("data", k), join("stringData", k))
	}
	d.obj["data"] = data
	delete(d.obj, "stringData")
}

func checkSecret(c *checks, s *corev1.Secret) {
	if s.Type != corev1.SecretTypeTLS {
		return
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		switch pem := string(s.Data[key]); {
		case pem == "":
			c.wrong("data", "has no "+key, "a Secret of type kubernetes.io/tls needs tls.crt and tls.key")
		case !strings.Contains(pem, "-----BEGIN "):
			c.wrong(join("data", key), "is not PEM", "write the PEM file's base64 in data, or its text in stringData")
		}
	}
	if len(c.found) > 0 {
		return
	}
	// Because invalid pairs are reported here, the last good pair stays in use. Translation also
	// checks the pair, because the store may have other writers.
	if _, err := certificates.ReadPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		c.wrong("data", "tls.crt and tls.key are not a certificate with its key: "+err.Error(),
			"write a PEM certificate chain, leaf first, and the private key of the leaf")
	}
}
