package main

import (
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

const (
	inferenceGroup = "inference.networking.k8s.io"
	importGroup    = "inference.networking.x-k8s.io"
	gatewayGroup   = "gateway.networking.k8s.io"
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	pools      = schema.GroupVersionResource{Group: inferenceGroup, Version: "v1", Resource: "inferencepools"}
	imports    = schema.GroupVersionResource{Group: importGroup, Version: "v1alpha1", Resource: "inferencepoolimports"}
	gateways   = schema.GroupVersionResource{Group: gatewayGroup, Version: "v1", Resource: "gateways"}
	routes     = schema.GroupVersionResource{Group: gatewayGroup, Version: "v1", Resource: "httproutes"}
)

var resources = map[string]schema.GroupVersionResource{
	"Namespace": namespaces, "Service": services, "InferencePool": pools, "InferencePoolImport": imports,
	"Gateway": gateways, "HTTPRoute": routes,
}

type member struct {
	run       *run
	name      string
	client    dynamic.Interface
	namespace string
}

func (m *member) in(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	return m.client.Resource(resource).Namespace(m.namespace)
}

func (m *member) settle() {
	ns := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": m.namespace}},
	}
	if _, err := m.client.Resource(namespaces).Create(m.run, ns, metav1.CreateOptions{}); err != nil {
		m.run.fail("cluster %s: create a namespace: %w", m.name, err)
	}
	m.run.after = append(m.run.after, func() {
		if err := m.client.Resource(namespaces).Delete(m.run, m.namespace, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			m.run.fail("cluster %s: delete the namespace: %w", m.name, err)
		}
	})
}

func (m *member) create(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(raw) // keeps integers, which encoding/json turns into floats
	}
	if err != nil {
		m.run.fail("%w in\n%s", err, text)
	}
	u.SetNamespace(m.namespace)
	made, err := m.in(resources[u.GetKind()]).Create(m.run, u, metav1.CreateOptions{})
	if err != nil {
		m.run.fail("cluster %s: create %s %s: %w", m.name, u.GetKind(), u.GetName(), err)
	}
	return made
}

func (m *member) change(resource schema.GroupVersionResource, name, patch string, subresources ...string) {
	if _, err := m.in(resource).Patch(m.run, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		subresources...); err != nil {
		m.run.fail("cluster %s: change %s %s: %w", m.name, resource.Resource, name, err)
	}
}

func (m *member) remove(resource schema.GroupVersionResource, name string) {
	if err := m.in(resource).Delete(m.run, name, metav1.DeleteOptions{}); err != nil {
		m.run.fail("cluster %s: delete %s %s: %w", m.name, resource.Resource, name, err)
	}
}

func (m *member) imported(name string, missing ...func(u *unstructured.Unstructured) error) {
	m.run.until(fmt.Sprintf("cluster %s: InferencePoolImport %s", m.name, name), func() error {
		u, err := m.in(imports).Get(m.run, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, f := range missing {
			if err := f(u); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *member) collected(name string) {
	m.run.until(fmt.Sprintf("cluster %s: InferencePoolImport %s is removed", m.name, name),
		func() error { return m.without(imports, name) })
}

func (m *member) without(resource schema.GroupVersionResource, name string) error {
	u, err := m.in(resource).Get(m.run, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("it is there, want it gone; status %v", u.Object["status"])
}

// entries returns the exporting clusters, with their entries in status.clusters. For shape
// Upstream, the entries are nil.
func (r *run) entries(u *unstructured.Unstructured) map[string]map[string]any {
	out := map[string]map[string]any{}
	if r.config.Shape == Seed {
		for _, c := range list(u.Object, "status", "clusters") {
			out[fmt.Sprint(c["name"])] = c
		}
		return out
	}
	for _, controller := range list(u.Object, "status", "controllers") {
		for _, c := range list(controller, "exportingClusters") {
			out[fmt.Sprint(c["name"])] = nil
		}
	}
	return out
}

func (r *run) exportedBy(name string) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		if got := r.entries(u); !contains(got, name) {
			return fmt.Errorf("exporting clusters: got %v, want %s", slices.Sorted(maps.Keys(got)), name)
		}
		return nil
	}
}

func (r *run) notExportedBy(name string) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		if contains(r.entries(u), name) {
			return fmt.Errorf("exporting clusters have %s, want it gone", name)
		}
		return nil
	}
}

func contains[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

func list(in map[string]any, path ...string) (out []map[string]any) {
	all, _, _ := unstructured.NestedSlice(in, path...)
	for _, e := range all {
		if m, ok := e.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// condition requires a condition of type typ with this status, and with one of the reasons. Status
// "" accepts any status; without reasons, any reason is accepted.
func condition(object map[string]any, typ, status string, reasons ...string) error {
	for _, c := range list(object, "conditions") {
		if c["type"] != typ {
			continue
		}
		if status != "" && c["status"] != status ||
			len(reasons) > 0 && !slices.Contains(reasons, fmt.Sprint(c["reason"])) {
			return fmt.Errorf("condition %s is %v, reason %v, %v, want %s %s", typ, c["status"], c["reason"],
				c["message"], status, reasons)
		}
		return nil
	}
	return fmt.Errorf("no condition %s, want it", typ)
}
