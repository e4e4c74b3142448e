package apply

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

// AnnotationApplied has the hash of the applied object, for all replicas.
const AnnotationApplied = "penstock.dev/applied"

// Ref names an object of a fleet.
type Ref struct{ Kind, Namespace, Name string }

func (r Ref) String() string { return r.Kind + " " + objectid.Join(r.Namespace, r.Name) }

// Object has the fields of a Kubernetes object that a Cluster keeps.
type Object struct {
	Ref
	UID     string
	Fleet   string
	Applied string
	// Mark is the generation; for kinds without a generation, the resource version.
	Mark string
	// Owner and OwnerName are the Gateway's UID and name.
	Owner, OwnerName string
	Deleting         bool

	// Replicas, Available and Stuck are a Deployment's.
	Replicas, Available int32
	// Stuck is why the rollout makes no progress.
	Stuck string
	// Balancer has the load balancer's addresses and names.
	Balancer, External, ClusterIPs []string
	Type                           corev1.ServiceType
	// Class is spec.loadBalancerClass.
	Class string
	// Ports are the ports of a NetworkPolicy's first rule.
	Ports []render.Socket
	// Nodes are the nodes' addresses, taken from the fleet's ready pods, because Penstock may not
	// read nodes.
	Nodes []string

	version uint64
}

var kinds = map[string]schema.GroupVersionResource{
	"ServiceAccount":          {Version: "v1", Resource: "serviceaccounts"},
	"ConfigMap":               {Version: "v1", Resource: "configmaps"},
	"Service":                 {Version: "v1", Resource: "services"},
	"Deployment":              {Group: "apps", Version: "v1", Resource: "deployments"},
	"PodDisruptionBudget":     {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	"HorizontalPodAutoscaler": {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	"NetworkPolicy":           {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
}

// Pods belong to a fleet by label, not by name.
const podKind = "Pod"

func resourceOf(kind string) schema.GroupVersionResource {
	if kind == podKind {
		return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	}
	return kinds[kind]
}

func (o *Object) subject() Ref {
	if o.Kind == podKind {
		return Ref{podKind, o.Namespace, o.Fleet}
	}
	return o.Ref
}

func digest(kind string, u *unstructured.Unstructured) *Object {
	o := &Object{
		Ref: Ref{kind, u.GetNamespace(), u.GetName()}, UID: string(u.GetUID()), Fleet: u.GetLabels()[render.LabelFleet],
		Applied: u.GetAnnotations()[AnnotationApplied], Mark: u.GetResourceVersion(),
		Deleting: u.GetDeletionTimestamp() != nil,
	}
	o.version, _ = strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if g := u.GetGeneration(); g > 0 {
		o.Mark = strconv.FormatInt(g, 10)
	}
	if owner := metav1.GetControllerOf(u); owner != nil {
		o.Owner, o.OwnerName = string(owner.UID), owner.Name
	}
	switch kind {
	case "Deployment":
		o.Replicas, o.Available = number(u, "spec", "replicas"), number(u, "status", "availableReplicas")
		o.Stuck = stuck(u)
	case "Service":
		typ, _, _ := unstructured.NestedString(u.Object, "spec", "type")
		o.Type = corev1.ServiceType(typ)
		o.Class, _, _ = unstructured.NestedString(u.Object, "spec", "loadBalancerClass")
		o.External, _, _ = unstructured.NestedStringSlice(u.Object, "spec", "externalIPs")
		o.ClusterIPs, _, _ = unstructured.NestedStringSlice(u.Object, "spec", "clusterIPs")
		ingress, _, _ := unstructured.NestedSlice(u.Object, "status", "loadBalancer", "ingress")
		for _, i := range ingress {
			entry, _ := i.(map[string]any)
			for _, key := range []string{"ip", "hostname"} {
				if a, _ := entry[key].(string); a != "" && !slices.Contains(o.Balancer, a) {
					o.Balancer = append(o.Balancer, a)
				}
			}
		}
	case "NetworkPolicy":
		o.Ports = openPorts(u)
	case podKind:
		o.Nodes = nodes(u)
	}
	return o
}

func openPorts(u *unstructured.Unstructured) (out []render.Socket) {
	rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "ingress")
	if len(rules) == 0 {
		return nil
	}
	rule, _ := rules[0].(map[string]any)
	ports, _, _ := unstructured.NestedSlice(rule, "ports")
	for _, p := range ports {
		if entry, ok := p.(map[string]any); ok {
			if n, ok := entry["port"].(int64); ok {
				out = append(out, render.Socket{Number: int32(n), UDP: entry["protocol"] == string(corev1.ProtocolUDP)})
			}
		}
	}
	return out
}

func nodes(u *unstructured.Unstructured) (out []string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	ready := slices.ContainsFunc(conditions, func(c any) bool {
		entry, ok := c.(map[string]any)
		return ok && entry["type"] == "Ready" && entry["status"] == "True"
	})
	if !ready || u.GetDeletionTimestamp() != nil {
		return nil
	}
	ips, _, _ := unstructured.NestedSlice(u.Object, "status", "hostIPs")
	for _, ip := range ips {
		if entry, ok := ip.(map[string]any); ok {
			if a, _ := entry["ip"].(string); a != "" {
				out = append(out, a)
			}
		}
	}
	return out
}

func stuck(u *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, bad := range []struct{ typ, status string }{{"ReplicaFailure", "True"}, {"Progressing", "False"}} {
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == bad.typ && c["status"] == bad.status {
				return fmt.Sprintf("%v: %v", c["reason"], c["message"])
			}
		}
	}
	return ""
}

func number(u *unstructured.Unstructured, path ...string) int32 {
	n, _, _ := unstructured.NestedInt64(u.Object, path...)
	return int32(n)
}
