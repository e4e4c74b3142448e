package export

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// reached returns the addresses at which other clusters reach a port of a picker's Service. number
// maps a port of the Service to its number at these addresses. Where possible, each address is one
// node or pod, because importers can then skip a failing one. By the Service's type, the addresses
// are:
//
//	LoadBalancer   its ingress           ExternalName   its name
//	NodePort       nodes with its pods   ClusterIP      its pods, with or without a cluster IP
func reached(r store.Reader, c Config, svc *corev1.Service, port *corev1.ServicePort) (at inferenceapi.ServiceImport,
	number func(*corev1.ServicePort) int32) {
	at.Type = cmp.Or(svc.Spec.Type, corev1.ServiceTypeClusterIP)
	number = func(p *corev1.ServicePort) int32 { return p.Port }
	ready := replicas(r, svc)
	switch {
	case at.Type == corev1.ServiceTypeNodePort && port.NodePort > 0:
		if nodes := ready.nodeAddresses(r, c, svc); len(nodes) > 0 || c.NodeAddress != nil {
			at.Addresses, number = nodes, func(p *corev1.ServicePort) int32 { return p.NodePort }
		}
	case at.Type == corev1.ServiceTypeClusterIP && ready.ports[port.Name] > 0:
		at.Addresses, number = ready.addresses, func(p *corev1.ServicePort) int32 { return ready.ports[p.Name] }
	}
	if len(at.Addresses) == 0 && !(at.Type == corev1.ServiceTypeNodePort && c.NodeAddress != nil) {
		at.Addresses = addresses(svc)
	}
	at.Addresses = at.Addresses[:min(len(at.Addresses), maxAddresses)]
	at.Ports = []inferenceapi.Port{{Number: number(port), Name: port.Name}}
	if port.AppProtocol != nil {
		at.Ports[0].AppProtocol = *port.AppProtocol
	}
	return at, number
}

type pods struct {
	addresses []string
	nodes     []string         // nodes of ready pods, or of all pods if none is ready
	ports     map[string]int32 // keyed by the Service's port name; no entry if pods use different ports
}

func replicas(r store.Reader, svc *corev1.Service) pods {
	out := pods{ports: map[string]int32{}}
	var list []netip.Addr
	differ := map[string]bool{}
	var others []string
	for _, s := range store.EndpointSlices.By(r, store.ByService, store.ID(svc)) {
		if s.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		some := false
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				if e.NodeName != nil {
					others = append(others, *e.NodeName)
				}
				continue
			}
			if e.NodeName != nil {
				out.nodes = append(out.nodes, *e.NodeName)
			}
			for _, text := range e.Addresses {
				if ip, err := netip.ParseAddr(text); err == nil {
					list, some = append(list, ip.Unmap()), true
				}
			}
		}
		for _, p := range s.Ports {
			if !some || p.Port == nil {
				continue
			}
			name := ""
			if p.Name != nil {
				name = *p.Name
			}
			differ[name] = differ[name] || out.ports[name] > 0 && out.ports[name] != *p.Port
			out.ports[name] = *p.Port
		}
	}
	for name, different := range differ {
		if different {
			delete(out.ports, name)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	for _, ip := range slices.Compact(list) {
		out.addresses = append(out.addresses, ip.String())
	}
	if len(out.nodes) == 0 {
		out.nodes = others
	}
	return out
}

func (p pods) nodeAddresses(r store.Reader, c Config, svc *corev1.Service) (out []string) {
	if c.NodeAddress != nil {
		for _, name := range p.nodes {
			if at := c.NodeAddress(name); at != "" {
				out = append(out, at)
			}
		}
	} else if key := NodePods(svc); key != "" {
		var others []string
		for _, pod := range store.Pods.By(r, store.ByLabel, key) {
			switch host := pod.Status.HostIP; {
			case host == "" || pod.Namespace != svc.Namespace ||
				!labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pod.Labels)):
			case slices.ContainsFunc(pod.Status.Conditions,
				func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
				}):
				out = append(out, host)
			default:
				others = append(others, host)
			}
		}
		if len(out) == 0 {
			out = others
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// NodePods returns the key for store.ByLabel that finds the pods of a NodePort Service, and pods
// with the same first label. It returns "" if the Service has another type or no selector.
func NodePods(svc *corev1.Service) string {
	if svc.Spec.Type != corev1.ServiceTypeNodePort || len(svc.Spec.Selector) == 0 {
		return ""
	}
	first := slices.Min(slices.Collect(maps.Keys(svc.Spec.Selector)))
	return store.LabelKey(svc.Namespace, first, svc.Spec.Selector[first])
}
