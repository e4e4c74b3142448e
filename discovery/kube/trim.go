package kube

import (
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/penstock-project/penstock/discovery/store"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// trim removes an object's unread fields, to save memory. It also removes fields that change with
// each write of a status, so that such a write does not change the store.
func trim(k *kind, obj store.Object) {
	shed(k, obj)
	obj.SetResourceVersion("")
	obj.SetOwnerReferences(nil)
	obj.SetFinalizers(nil)
	obj.SetGenerateName("")
	obj.SetSelfLink("")
	obj.GetObjectKind().SetGroupVersionKind(k.gvk())
}

// shed is the part of trim that runs on each object as it arrives, before the list is complete. It
// may run twice.
func shed(k *kind, obj store.Object) {
	obj.SetManagedFields(nil)
	obj.SetNamespace(unique.Make(obj.GetNamespace()).Value()) // all objects share one string
	if a := obj.GetAnnotations(); a != nil {
		delete(a, lastApplied)
		if len(a) == 0 || k.plain {
			obj.SetAnnotations(nil)
		}
	}
	if k.trim != nil {
		k.trim(obj)
	}
}

func trimService(obj store.Object) {
	s := obj.(*corev1.Service)
	s.Spec = corev1.ServiceSpec{
		Ports: s.Spec.Ports, Selector: s.Spec.Selector, Type: s.Spec.Type, ClusterIP: s.Spec.ClusterIP,
		ClusterIPs:   s.Spec.ClusterIPs,
		ExternalName: s.Spec.ExternalName, ExternalIPs: s.Spec.ExternalIPs,
	}
	s.Status = corev1.ServiceStatus{LoadBalancer: s.Status.LoadBalancer}
}

// Routes share these values, to save memory. They are defaults of the CRD, so most routes have
// them, and decoding allocates them for each route.
var (
	parentGroup, parentKind   = gatewayv1.Group(gatewayv1.GroupName), gatewayv1.Kind("Gateway")
	backendGroup, backendKind = gatewayv1.Group(""), gatewayv1.Kind("Service")
	oneWeight                 = int32(1)
	pathPrefix, root          = gatewayv1.PathMatchPathPrefix, "/"
)

func trimHTTPRoute(obj store.Object) {
	r := obj.(*gatewayv1.HTTPRoute)
	for i := range r.Spec.ParentRefs {
		p := &r.Spec.ParentRefs[i]
		p.Group, p.Kind = shared(p.Group, &parentGroup), shared(p.Kind, &parentKind)
	}
	for i := range r.Spec.Rules {
		rule := &r.Spec.Rules[i]
		for j := range rule.Matches {
			if p := rule.Matches[j].Path; p != nil {
				p.Type, p.Value = shared(p.Type, &pathPrefix), shared(p.Value, &root)
			}
		}
		for j := range rule.BackendRefs {
			b := &rule.BackendRefs[j]
			b.Group, b.Kind, b.Weight = shared(b.Group, &backendGroup), shared(b.Kind, &backendKind),
				shared(b.Weight, &oneWeight)
		}
	}
}

func shared[T comparable](p, value *T) *T {
	if p != nil && *p == *value {
		return value
	}
	return p
}

func trimSlice(obj store.Object) { trimSliceTo(obj, false) }

func trimSliceToNodes(obj store.Object) { trimSliceTo(obj, true) }

func trimSliceTo(obj store.Object, nodes bool) {
	s := obj.(*discoveryv1.EndpointSlice)
	if s.Labels != nil && s.UID == "" {
		return
	}
	service, imported, generated := s.Labels[discoveryv1.LabelServiceName], s.Labels[mcsv1beta1.LabelServiceName],
		store.Generated(s)
	s.Labels, s.Generation, s.UID = nil, 0, ""
	if service != "" {
		s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
		if generated {
			s.Labels[discoveryv1.LabelManagedBy] = store.SliceController
		}
	}
	if imported != "" {
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[mcsv1beta1.LabelServiceName] = imported
	}
	yes, no := true, false
	one := func(b *bool) *bool { return shared(shared(b, &yes), &no) }
	var endpoints []discoveryv1.Endpoint
	for _, e := range s.Endpoints {
		now := discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{
			Ready: one(e.Conditions.Ready), Serving: one(e.Conditions.Serving),
			Terminating: one(e.Conditions.Terminating),
		}}
		if nodes {
			now.NodeName = e.NodeName
		}
		// Merge endpoints with equal conditions and nodes, to save memory: a cluster has far more
		// endpoints than other items.
		i := slices.IndexFunc(endpoints, func(o discoveryv1.Endpoint) bool {
			return o.Conditions == now.Conditions && ptr.Equal(o.NodeName, now.NodeName)
		})
		if i < 0 {
			i = len(endpoints)
			endpoints = append(endpoints, now)
		}
		endpoints[i].Addresses = append(endpoints[i].Addresses, e.Addresses...)
	}
	for i, e := range endpoints {
		endpoints[i].Addresses = compact(e.Addresses)
	}
	s.Endpoints = endpoints
}

// compact copies strings into two allocations, so that the memory of the API server's response can
// be freed.
func compact(list []string) []string {
	rest, out := strings.Join(list, ""), make([]string, len(list))
	for i, s := range list {
		out[i], rest = rest[:len(s)], rest[len(s):]
	}
	return out
}

func trimPod(obj store.Object) {
	p := obj.(*corev1.Pod)
	p.Spec, p.Generation = corev1.PodSpec{}, 0
	status := corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs,
		HostIP: unique.Make(p.Status.HostIP).Value()}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	p.Status = status
}

func trimNamespace(obj store.Object) {
	n := obj.(*corev1.Namespace)
	n.Spec, n.Status = corev1.NamespaceSpec{}, corev1.NamespaceStatus{Phase: n.Status.Phase}
}
