package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	kuberest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/conformance/lab"
)

var (
	namespaces     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	services       = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	classes        = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1",
		Resource: "gatewayclasses"}
	secrets  = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	gateways = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1",
		Resource: "gateways"}
	httpRoutes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1",
		Resource: "httproutes"}
	envoyFleets = schema.GroupVersionResource{Group: "penstock.dev", Version: "v1alpha1", Resource: "envoyfleets"}
)

type cluster struct {
	lab        *lab.Lab
	kubeconfig string
	client     dynamic.Interface
	namespace  string
}

// bareCluster starts a lab. Penstock is measured outside of it.
func bareCluster(ctx context.Context) (*cluster, error) {
	dir, err := filepath.Abs("../.lab-bench")
	if err != nil {
		return nil, err
	}
	l, err := lab.Start(ctx, lab.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, errors.Join(err, l.Down())
	}
	c, err := inLab(ctx, l, config)
	if err != nil {
		return nil, errors.Join(err, l.Down())
	}
	return c, nil
}

func inLab(ctx context.Context, l *lab.Lab, config *kuberest.Config) (c *cluster, err error) {
	c = &cluster{lab: l, kubeconfig: l.Kubeconfig(), namespace: "bench"}
	config.QPS = -1
	if c.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	return c, c.create(ctx, namespaces, map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": c.namespace},
	})
}

func (c *cluster) end() {
	if err := c.lab.Down(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

func (c *cluster) create(ctx context.Context, kind schema.GroupVersionResource, object any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return err
	}
	unstructured.RemoveNestedField(u.Object, "status")
	into := dynamic.ResourceInterface(c.client.Resource(kind))
	if kind != namespaces && kind != classes {
		u.SetNamespace(c.namespace)
		into = c.client.Resource(kind).Namespace(c.namespace)
	}
	_, err = into.Create(ctx, u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (c *cluster) load(ctx context.Context, w *world.World) error {
	class := map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
		"metadata": map[string]any{"name": "penstock"},
		"spec":     map[string]any{"controllerName": translation.Controller}}
	fleet := map[string]any{"apiVersion": "penstock.dev/v1alpha1", "kind": "EnvoyFleet",
		"metadata": map[string]any{"name": "external"},
		"spec":     map[string]any{"mode": "external"}}
	gateway := w.GatewayObject()
	gateway.Spec.Addresses = nil
	gateway.Spec.Infrastructure = &gatewayv1.GatewayInfrastructure{
		ParametersRef: &gatewayv1.LocalParametersReference{Group: "penstock.dev", Kind: "EnvoyFleet", Name: "external"},
	}
	for l := range w.Listeners {
		if err := c.create(ctx, secrets, w.SecretObject(l)); err != nil {
			return err
		}
	}
	if err := errors.Join(c.create(ctx, classes, class), c.create(ctx, envoyFleets, fleet),
		c.create(ctx, gateways, gateway)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range w.Hosts {
		group.Go(func() error {
			s, slice := clusterService(w, i)
			if err := errors.Join(c.create(ctx, services, s), c.create(ctx, endpointSlices, slice)); err != nil {
				return err
			}
			return c.create(ctx, httpRoutes, w.Route(i, 0))
		})
	}
	return group.Wait()
}

// clusterService returns a Service without loopback addresses, which the API server rejects.
func clusterService(w *world.World, b int) (*corev1.Service, *discoveryv1.EndpointSlice) {
	s, slice := w.Service(b, 0)
	s.Spec.ClusterIP = corev1.ClusterIPNone // no selector, so Kubernetes makes no EndpointSlice
	for e := range slice.Endpoints {
		slice.Endpoints[e].Addresses = []string{fmt.Sprintf("10.%d.%d.%d", 192+b/250, b%250, 1+e)}
	}
	return s, slice
}

func (c *cluster) change(ctx context.Context, i, revision int) (version string, err error) {
	patch := fmt.Sprintf(
		`[{"op":"replace","path":"/spec/rules/0/filters/0/responseHeaderModifier/set/0/value","value":"%d"}]`, revision)
	u, err := c.client.Resource(httpRoutes).Namespace(c.namespace).Patch(ctx, fmt.Sprintf("route-%d", i),
		types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return "", err
	}
	return u.GetResourceVersion(), nil
}

func accepted(route *unstructured.Unstructured) bool {
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	for _, parent := range parents {
		conditions, _, _ := unstructured.NestedSlice(parent.(map[string]any), "conditions")
		for _, condition := range conditions {
			if m := condition.(map[string]any); m["type"] == "Accepted" && m["status"] == "True" {
				return true
			}
		}
	}
	return false
}
