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
	"k8s.io/client-go/tools/clientcmd"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
)

// The resources of the cluster's world.
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

// cluster is the API of a lab, and a namespace in it.
type cluster struct {
	lab        *lab.Lab
	kubeconfig string
	client     dynamic.Interface
	namespace  string
}

// bareCluster starts a lab without Penstock, which runs beside it, so that its CPU can be measured.
func bareCluster(ctx context.Context) (*cluster, error) {
	dir, err := filepath.Abs("../.lab-bench")
	if err != nil {
		return nil, err
	}
	l, err := lab.Start(ctx, lab.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	return inLab(ctx, l)
}

// installedCluster starts a lab with Penstock in it.
func installedCluster(ctx context.Context) (*cluster, error) {
	l, err := installed.Start(ctx, lab.Config{Dir: "../.lab-bench"})
	if err != nil {
		return nil, err
	}
	return inLab(ctx, l)
}

// inLab connects to a lab, without a client-side rate limit.
func inLab(ctx context.Context, l *lab.Lab) (*cluster, error) {
	c := &cluster{lab: l, kubeconfig: l.Kubeconfig(), namespace: "bench"}
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err == nil {
		config.QPS = -1
		c.client, err = dynamic.NewForConfig(config)
	}
	if err == nil {
		err = c.create(ctx, namespaces, map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": c.namespace},
		})
	}
	if err != nil {
		return nil, errors.Join(err, l.Down())
	}
	return c, nil
}

// end ends the lab with everything in it.
func (c *cluster) end() {
	if err := c.lab.Down(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// create creates an object from its fields, or from a typed one, unless it exists.
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

// gateway creates the class and the Gateway of a world, with external proxies.
func (c *cluster) gateway(ctx context.Context, w *world.World) error {
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
	return errors.Join(c.create(ctx, classes, class), c.create(ctx, envoyFleets, fleet),
		c.create(ctx, gateways, gateway))
}

// routes creates routes first..n-1 of a world and, with backends, a Service and an EndpointSlice
// for each.
func (c *cluster) routes(ctx context.Context, w *world.World, first, n int, backends bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := first; i < n; i++ {
		group.Go(func() error {
			if backends {
				s, slice := clusterService(w, i)
				if err := errors.Join(c.create(ctx, services, s), c.create(ctx, endpointSlices, slice)); err != nil {
					return err
				}
			}
			return c.create(ctx, httpRoutes, w.Route(i, 0))
		})
	}
	return group.Wait()
}

// clusterService is backend b without loopback addresses, which a cluster does not accept.
func clusterService(w *world.World, b int) (*corev1.Service, *discoveryv1.EndpointSlice) {
	s, slice := w.Service(b, 0)
	s.Spec.ClusterIP = corev1.ClusterIPNone // without a selector, so the EndpointSlice is ours
	for e := range slice.Endpoints {
		slice.Endpoints[e].Addresses = []string{fmt.Sprintf("10.%d.%d.%d", 192+b/250, b%250, 1+e)}
	}
	return s, slice
}

// change writes a revision of a route, visible as a response header, and returns its
// resourceVersion.
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

// attached returns the attachedRoutes in the Gateway's status.
func (c *cluster) attached(ctx context.Context) (int64, error) {
	u, err := c.client.Resource(gateways).Namespace(c.namespace).Get(ctx, "gw", metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	return attachedRoutes(u)
}

// attachedRoutes returns the attachedRoutes of a Gateway's first listener, or an error if the
// status has none.
func attachedRoutes(gateway *unstructured.Unstructured) (int64, error) {
	listeners, _, err := unstructured.NestedSlice(gateway.Object, "status", "listeners")
	if err != nil || len(listeners) == 0 {
		return 0, fmt.Errorf("no listeners in the status of Gateway %s: %w", gateway.GetName(), err)
	}
	n, _, err := unstructured.NestedInt64(listeners[0].(map[string]any), "attachedRoutes")
	return n, err
}

// accepted reports whether a route's only parent has accepted it.
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
