package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
)

type defect string

const (
	none            defect = ""
	neverCollects   defect = "never removes an import"
	namesNoMember   defect = "does not name the member that has no namespace"
	makesNamespaces defect = "creates missing namespaces"
	exportsAll      defect = "exports pools without the annotation"
	overwrites      defect = "writes the whole status of an import that others write too"
	remembers       defect = "reports an export that was withdrawn"
	wrongPort       defect = "takes the picker's port for the target port"
	writesOnce      defect = "never changes an import"
)

// A controller without a defect passes. A defect fails exactly the tests in its list.
func TestSuite_BrokenControllerFailsExactlyItsTests(t *testing.T) {
	for d, want := range map[defect][]string{
		none:            nil,
		neverCollects:   {"WithdrawalCollectsImport", "DeletionCollectsImport", "ImportOfAnother"},
		namesNoMember:   {"MissingNamespace"},
		makesNamespaces: {"MissingNamespace", "LaterNamespace"},
		exportsAll: {"ExportIsOptIn", "ExportedCondition", "WithdrawalCollectsImport", "ExportAgain",
			"TwoExporters", "ImportOfAnother"},
		overwrites: {"ImportOfAnother"},
		remembers:  {"ExportedCondition", "ExportAgain"},
		wrongPort:  {"EndpointWiring", "WiringFollows"},
		writesOnce: {"WiringFollows", "TwoExporters", "ImportOfAnother"},
	} {
		for _, shape := range []Shape{Upstream, Seed} {
			t.Run(string(shape)+" "+string(d), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := controller{shape: shape, defect: d}
					for _, name := range []string{"east", "west", "north"} {
						c.clusters = append(c.clusters, fakeCluster(name))
					}
					ctx, stop := context.WithCancel(t.Context())
					go c.run(ctx)
					s, err := New(Config{Clusters: c.clusters, Profiles: []Profile{Controller}, Shape: shape,
						Timeout: 2 * time.Second})
					if err != nil {
						t.Fatal(err)
					}
					compare(t, s.Run(ctx), want)
					stop()
				})
			})
		}
	}
}

// compare requires that, of the tests that ran, exactly the tests in want have failed.
func compare(t *testing.T, results []Result, want []string) {
	t.Helper()
	for _, r := range results {
		if failed := r.Err != nil; failed != (slices.Contains(want, r.Name) && r.Skipped == "") {
			t.Errorf("%s: got %s, want it to fail: %t", r.Name, r, !failed)
		}
	}
}

// controller is a simple controller of a cluster set, which reconciles all objects in a loop.
type controller struct {
	clusters []Cluster
	shape    Shape
	defect   defect
}

const manager = "clusterset.example/controller"

func fakeCluster(name string) Cluster {
	kinds := map[schema.GroupVersionResource]string{}
	for kind, resource := range resources {
		kinds[resource] = kind + "List"
	}
	return Cluster{Name: name, Client: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)}
}

func (c controller) run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, to := range c.clusters {
			to.sweep(ctx)
			c.balance(ctx, to)
			c.report(ctx, to)
			c.reconcile(ctx, to)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (cluster Cluster) all(ctx context.Context, resource schema.GroupVersionResource) []unstructured.Unstructured {
	found, err := cluster.Client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return found.Items
}

func (cluster Cluster) has(ctx context.Context, namespace string) bool {
	_, err := cluster.Client.Resource(namespaces).Get(ctx, namespace, metav1.GetOptions{})
	return err == nil
}

// sweep deletes the contents of deleted namespaces, as an API server does.
func (cluster Cluster) sweep(ctx context.Context) {
	for _, resource := range []schema.GroupVersionResource{pools, services, imports, gateways, routes} {
		for _, u := range cluster.all(ctx, resource) {
			if !cluster.has(ctx, u.GetNamespace()) {
				_ = cluster.Client.Resource(resource).Namespace(u.GetNamespace()).
					Delete(ctx, u.GetName(), metav1.DeleteOptions{})
			}
		}
	}
}

// status patches only an object's status. The fake API server never reports a conflict.
func (cluster Cluster) status(ctx context.Context, resource schema.GroupVersionResource, u *unstructured.Unstructured,
	status map[string]any) {
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		panic(err)
	}
	_, _ = cluster.Client.Resource(resource).Namespace(u.GetNamespace()).
		Patch(ctx, u.GetName(), types.MergePatchType, raw,
			metav1.PatchOptions{}, "status")
}

func (c controller) balance(ctx context.Context, in Cluster) {
	for _, svc := range in.all(ctx, services) {
		if len(addresses(&svc)) == 0 {
			in.status(ctx, services, &svc, map[string]any{
				"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.7"}}},
			})
		}
	}
}

func (c controller) asked(pool *unstructured.Unstructured) bool {
	return c.defect == exportsAll || pool.GetAnnotations()[exportAnnotation] == "ClusterSet"
}

func (c controller) report(ctx context.Context, from Cluster) {
	for _, pool := range from.all(ctx, pools) {
		had := len(list(pool.Object, "status", "parents")) > 0
		var parents []any
		if c.asked(&pool) || c.defect == remembers && had {
			condition := map[string]any{"type": "Exported", "status": "True", "reason": "Exported"}
			for _, to := range c.clusters {
				if to.Name == from.Name {
					continue
				}
				if _, err := to.Client.Resource(imports).Namespace(pool.GetNamespace()).
					Get(ctx, pool.GetName(), metav1.GetOptions{}); err != nil {
					condition["status"], condition["reason"] = "False", "NamespaceNotFound"
					if c.defect != namesNoMember {
						condition["message"] = "no import in " + to.Name
					}
				}
			}
			parents = append(parents, map[string]any{
				"parentRef": map[string]any{"group": importGroup, "kind": "InferencePoolImport",
					"name": pool.GetName()}, "conditions": []any{condition},
			})
		}
		from.status(ctx, pools, &pool, map[string]any{"parents": parents})
	}
}

func (c controller) reconcile(ctx context.Context, to Cluster) {
	wanted := map[types.NamespacedName][]any{}
	for _, from := range c.clusters {
		for _, pool := range from.all(ctx, pools) {
			key := types.NamespacedName{Namespace: pool.GetNamespace(), Name: pool.GetName()}
			if from.Name != to.Name && c.asked(&pool) {
				wanted[key] = append(wanted[key], c.entry(from, &pool))
			}
		}
	}
	for key, entries := range wanted {
		if !to.has(ctx, key.Namespace) {
			if c.defect != makesNamespaces {
				continue
			}
			ns := &unstructured.Unstructured{
				Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
					"metadata": map[string]any{"name": key.Namespace}},
			}
			_, _ = to.Client.Resource(namespaces).Create(ctx, ns, metav1.CreateOptions{})
		}
		in := to.Client.Resource(imports).Namespace(key.Namespace)
		u, err := in.Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil {
			u = &unstructured.Unstructured{Object: map[string]any{"apiVersion": importGroup + "/v1alpha1",
				"kind": "InferencePoolImport",
				"metadata": map[string]any{"namespace": key.Namespace, "name": key.Name,
					"labels": map[string]any{"made-by": "controller"}}}}
			if u, err = in.Create(ctx, u, metav1.CreateOptions{}); err != nil {
				continue
			}
		}
		if c.defect != writesOnce || !c.mine(u) {
			to.status(ctx, imports, u, c.written(u, entries))
		}
	}
	for _, u := range to.all(ctx, imports) {
		in := to.Client.Resource(imports).Namespace(u.GetNamespace())
		_, keep := wanted[types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}]
		switch {
		case keep || c.defect == neverCollects:
		case u.GetLabels()["made-by"] == "controller":
			_ = in.Delete(ctx, u.GetName(), metav1.DeleteOptions{})
		case c.mine(&u) && c.defect != writesOnce:
			to.status(ctx, imports, &u, c.written(&u, nil))
		}
	}
}

func (c controller) entry(from Cluster, pool *unstructured.Unstructured) any {
	if c.shape == Upstream {
		return map[string]any{"name": from.Name}
	}
	port, _, _ := unstructured.NestedInt64(list(pool.Object, "spec", "targetPorts")[0], "number")
	if c.defect == wrongPort {
		port = pickerPort
	}
	return map[string]any{"name": from.Name, "routingMode": "EndpointMode", "targetPortNumber": port,
		"endpointPicker": map[string]any{
			"service": []any{
				map[string]any{"addresses": []any{"192.0.2.7"},
					"ports": []any{map[string]any{"number": int64(pickerPort)}}},
			}}}
}

func (c controller) mine(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(list(u.Object, "status", "controllers"),
		func(e map[string]any) bool { return e["name"] == manager })
}

// written returns a merge patch of an import's status, with entries instead of the controller's own
// entries. A null removes the field.
func (c controller) written(u *unstructured.Unstructured, entries []any) map[string]any {
	var controllers []any
	for _, e := range list(u.Object, "status", "controllers") {
		if e["name"] != manager && c.defect != overwrites {
			controllers = append(controllers, e)
		}
	}
	status := map[string]any{"clusters": nil, "conditions": nil}
	if len(entries) > 0 {
		own := map[string]any{"name": manager}
		if c.shape == Upstream {
			own["exportingClusters"] = entries
		} else {
			status["clusters"] = entries
			status["conditions"] = []any{map[string]any{"type": "Accepted", "status": "True"},
				map[string]any{"type": "Ready", "status": "Unknown"}}
		}
		controllers = append(controllers, own)
	}
	status["controllers"] = controllers
	return status
}

func TestSuite_ConfigurationIsChecked(t *testing.T) {
	east := fakeCluster("east")
	for want, c := range map[string]Config{
		`shape "": write "upstream" or "seed"`: {},
		`profile "mesh": write "controller" or "gateway"`: {
			Shape: Seed, Profiles: []Profile{"mesh"},
		},
		"profile controller: needs two clusters at least, has 1": {
			Shape: Seed, Profiles: []Profile{Controller}, Clusters: []Cluster{east},
		},
		`cluster "east": is there twice; each member has a name of its own`: {
			Shape: Seed, Clusters: []Cluster{east, east},
		},
		"cluster 0: has no name or no client": {Shape: Seed, Clusters: []Cluster{{}}},
		"profile gateway: needs a cluster and a GatewayClass": {
			Shape: Seed, Profiles: []Profile{Gateway}, Clusters: []Cluster{east},
		},
		"profile gateway: needs an address of this machine that gateways reach": {
			Shape: Seed, Profiles: []Profile{Gateway}, Clusters: []Cluster{east}, GatewayClass: "x",
		},
	} {
		if _, err := New(c); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	names := map[string]bool{}
	for _, test := range tests {
		if names[test.Name] || !strings.HasSuffix(test.Proves, ".") {
			t.Errorf("test %s: is there twice, or proves no sentence: %q", test.Name, test.Proves)
		}
		names[test.Name] = true
	}
	if len(slices.Collect(maps.Keys(names))) != len(tests) {
		t.Error("names are not unique")
	}
}
