//go:build lab

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

func (s *server) pool(t *testing.T, namespace, name, spec, annotations string) {
	t.Helper()
	s.create(t, "inferencepools",
		fmt.Sprintf(
			`{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {namespace: %s, name: %s, annotations: {inference.networking.x-k8s.io/export: ClusterSet%s}},
  spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: 8000}]%s}}`, namespace, name, annotations, spec))
}

func (s *server) setStatus(t *testing.T, gvr schema.GroupVersionResource, namespace, name, status string) {
	t.Helper()
	pickers := s.of(
		&unstructured.Unstructured{
			Object: map[string]any{"apiVersion": gvr.GroupVersion().String(),
				"metadata": map[string]any{"namespace": namespace}},
		}, gvr.Resource)
	if _, err := pickers.Patch(t.Context(), name, types.MergePatchType, []byte(`{"status": `+status+`}`),
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// entry waits until the import of a pool has an entry of the cluster with these parts.
func (s *server) entry(t *testing.T, namespace, name, cluster string, parts ...string) {
	t.Helper()
	labtest.Until(t, "the import of "+name, func(ctx context.Context) error {
		u, err := s.client.Resource(importKind).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "clusters")
		for _, c := range clusters {
			if c := c.(map[string]any); c["name"] == cluster {
				raw, err := json.Marshal(c)
				if err != nil {
					return err
				}
				for _, p := range parts {
					if !strings.Contains(string(raw), p) {
						return fmt.Errorf("the entry is %s, want %s in it", raw, p)
					}
				}
				return nil
			}
		}
		return fmt.Errorf("status: got %v, want an entry of %s", u.Object["status"], cluster)
	})
}

func TestHub_PickerOfEveryTypeOfServiceIsReached(t *testing.T) {
	servers := clusters(t, "east", "west")
	east, west := servers["east"], servers["west"]
	east.install(t, "poolexports")
	for _, s := range servers {
		s.namespace(t, "team")
	}
	h := newHub(t, servers, setOf("east", "west"))
	h.start()
	slice :=
		`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: team, name: NAME-1, labels: {kubernetes.io/service-name: NAME}}, addressType: IPv4,
  ports: [{name: ext-proc, port: 19002}], endpoints: [{addresses: [10.1.0.7], nodeName: node-a, conditions: {ready: true}}, {addresses: [10.1.0.8], nodeName: node-b, conditions: {ready: READY}}]}`
	ref := ", endpointPickerRef: {name: NAME, port: {number: 9002}}"
	for name, spec := range map[string]string{
		"node":    "type: NodePort, ports: [{name: ext-proc, port: 9002, nodePort: 30002}]",
		"cluster": "type: ClusterIP, ports: [{name: ext-proc, port: 9002}]",
		"name":    "type: ExternalName, externalName: epp.example.com, ports: [{name: ext-proc, port: 9002}]",
	} {
		east.create(t, "services",
			fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: team, name: %s}, spec: {%s}}", name,
				spec))
		east.pool(t, "team", name, strings.ReplaceAll(ref, "NAME", name), "")
		if name != "name" {
			east.create(t, "endpointslices", strings.NewReplacer("NAME", name, "READY", "false").Replace(slice))
		}
	}
	east.hasExported(t, "team", "node", "Exported=False/NoAddress")
	for node, address := range map[string]string{"node-a": "192.0.2.1", "node-b": "192.0.2.2"} {
		east.create(t, "nodes", "{apiVersion: v1, kind: Node, metadata: {name: "+node+
			", labels: {topology.kubernetes.io/region: eu, topology.kubernetes.io/zone: "+node+"}}}")
		east.setStatus(t, schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "", node,
			`{"addresses": [{"type": "ExternalIP", "address": "198.51.100.1"}, {"type": "InternalIP", "address": "`+
				address+`"}]}`)
	}
	west.entry(t, "team", "node", "east", `"addresses":["192.0.2.1"]`, `"number":30002`, `"type":"NodePort"`)
	west.entry(t, "team", "node", "east", `"region":"eu"`)
	west.entry(t, "team", "cluster", "east", `"addresses":["10.1.0.7"]`, `"number":19002`, `"type":"ClusterIP"`)
	west.entry(t, "team", "name", "east", `"addresses":["epp.example.com"]`, `"number":9002`, `"type":"ExternalName"`)
	if _, err := east.client.Resource(schema.GroupVersionResource{
		Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices",
	}).Namespace("team").Patch(t.Context(), "node-1", types.JSONPatchType,
		[]byte(`[{"op": "replace", "path": "/endpoints/1/conditions/ready", "value": true}]`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	west.entry(t, "team", "node", "east", `"addresses":["192.0.2.1","192.0.2.2"]`)
	east.hasExported(t, "team", "node", "Exported=True")
	if u, err := west.client.Resource(importKind).Namespace("team").Get(t.Context(), "node",
		metav1.GetOptions{}); err != nil || strings.Contains(fmt.Sprint(u.Object), "zone:") {
		t.Errorf("an import of nodes in two zones: got %v %v, want no zone", u, err)
	}

	east.pool(t, "team", "own", "", "")
	east.hasExported(t, "team", "own", "Exported=False/NotSupported: it has no endpointPickerRef")
	exports := schema.GroupVersionResource{Group: "penstock.dev", Version: "v1alpha1", Resource: "poolexports"}
	export := func(name, cluster, status string) {
		east.create(t, "poolexports",
			"{apiVersion: penstock.dev/v1alpha1, kind: PoolExport, metadata: {namespace: team, name: "+name+
				"}, spec: {cluster: "+cluster+", pool: own}, status: "+status+"}")
	}
	export("own.other", "other",
		`{clusterUID: another, entry: {name: other, routingMode: EndpointMode, targetPorts: [{number: 8000}], endpointPicker: {service: [{addresses: [192.0.2.66], ports: [{number: 9002}]}]}}}`)
	export("own.orient", "orient",
		`{entry: {name: orient, routingMode: EndpointMode, targetPorts: [{number: 8000}], failureMode: FailOpen, podCIDRs: [10.1.0.0/16], endpointPicker: {name: penstock, pool: team/own, service: [{addresses: [192.0.2.7], ports: [{number: 9002}]}]}}}`)
	west.entry(t, "team", "own", "east", `"addresses":["192.0.2.7"]`, `"pool":"team/own"`, `"failureMode":"FailOpen"`,
		`"podCIDRs":["10.1.0.0/16"]`)
	east.hasExported(t, "team", "own", "Exported=True")
	if err := east.client.Resource(exports).Namespace("team").Delete(t.Context(), "own.orient",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	west.hasImport(t, "team", "own", "")
	east.hasExported(t, "team", "own", "Exported=False/NotSupported")
}
