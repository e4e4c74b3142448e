package main

import (
	"context"
	"encoding/json"
	"fmt"

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
)

// The resources that the cluster's world is made of.
var (
	namespaces     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	services       = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	classes        = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gatewayclasses"}
	gateways       = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
	httpRoutes     = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	envoyFleets    = schema.GroupVersionResource{Group: "penstock.dev", Version: "v1alpha1", Resource: "envoyfleets"}
)

// cluster is a Kubernetes API with a namespace of ours in it.
type cluster struct {
	client    dynamic.Interface
	namespace string
}

// newCluster connects, without a limit of its own on how fast it asks.
func newCluster(ctx context.Context, kubeconfig, namespace string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &cluster{client: client, namespace: namespace}
	ns := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}
	return c, c.create(ctx, namespaces, ns)
}

// create makes an object from its fields, or from a typed one; one that exists is left alone.
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

// gateway makes a class and a Gateway whose proxies nobody runs, with a cleartext listener.
func (c *cluster) gateway(ctx context.Context, name string) error {
	for _, o := range []struct {
		kind   schema.GroupVersionResource
		object map[string]any
	}{
		{classes, map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": map[string]any{"name": "penstock"},
			"spec": map[string]any{"controllerName": translation.Controller}}},
		{envoyFleets, map[string]any{"apiVersion": "penstock.dev/v1alpha1", "kind": "EnvoyFleet", "metadata": map[string]any{"name": "external"},
			"spec": map[string]any{"mode": "external"}}},
		{gateways, map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"gatewayClassName": "penstock",
				"infrastructure":   map[string]any{"parametersRef": map[string]any{"group": "penstock.dev", "kind": "EnvoyFleet", "name": "external"}},
				"listeners":        []any{map[string]any{"name": "http", "port": 80, "protocol": "HTTP"}},
			}}},
	} {
		if err := c.create(ctx, o.kind, o.object); err != nil {
			return fmt.Errorf("%s: %w", o.kind.Resource, err)
		}
	}
	return nil
}

// routes makes routes first..n-1 with a host each and, if wanted, a Service and an EndpointSlice each.
func (c *cluster) routes(ctx context.Context, gateway string, first, n int, backends bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := first; i < n; i++ {
		group.Go(func() error {
			if backends {
				s, slice := kubeService(i)
				if err := c.create(ctx, services, s); err != nil {
					return err
				}
				if err := c.create(ctx, endpointSlices, slice); err != nil {
					return err
				}
			}
			return c.create(ctx, httpRoutes, kubeRoute(gateway, i))
		})
	}
	return group.Wait()
}

func kubeRoute(gateway string, i int) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{TypeMeta: metav1.TypeMeta{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute"}}
	r.Name = fmt.Sprintf("%s-%d", gateway, i)
	r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: gatewayv1.ObjectName(gateway)}}
	r.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("h%d.example", i))}
	port := gatewayv1.PortNumber(80)
	rule := gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{{}}}
	rule.BackendRefs[0].Name, rule.BackendRefs[0].Port = gatewayv1.ObjectName(fmt.Sprintf("svc-%d", i)), &port
	r.Spec.Rules = []gatewayv1.HTTPRouteRule{rule}
	return r
}

func kubeService(i int) (*corev1.Service, *discoveryv1.EndpointSlice) {
	name, http, port, ready := fmt.Sprintf("svc-%d", i), "http", int32(8000), true
	s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}}
	s.Name = name
	s.Spec.ClusterIP = corev1.ClusterIPNone // no selector, no address: the slices are ours
	s.Spec.Ports = []corev1.ServicePort{{Name: http, Port: 80}}
	slice := &discoveryv1.EndpointSlice{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}, AddressType: discoveryv1.AddressTypeIPv4}
	slice.Name, slice.Labels = name, map[string]string{discoveryv1.LabelServiceName: name}
	slice.Ports = []discoveryv1.EndpointPort{{Name: &http, Port: &port}}
	for e := range 10 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 128+i/250%100, i%250, 1+e)},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return s, slice
}

// change writes a revision of a route, which a response header tells, and returns its resourceVersion.
func (c *cluster) change(ctx context.Context, gateway string, i, revision int) (version string, err error) {
	patch := fmt.Sprintf(`[{"op":"add","path":"/spec/rules/0/filters","value":[{"type":"ResponseHeaderModifier","responseHeaderModifier":{"set":[{"name":"x-revision","value":"%d"}]}}]}]`, revision)
	u, err := c.client.Resource(httpRoutes).Namespace(c.namespace).Patch(ctx, fmt.Sprintf("%s-%d", gateway, i), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return "", err
	}
	return u.GetResourceVersion(), nil
}

// remove deletes the namespace with everything in it, and does not wait for its end.
func (c *cluster) remove(ctx context.Context) error {
	return c.client.Resource(namespaces).Delete(ctx, c.namespace, metav1.DeleteOptions{})
}

// attached is what a Gateway's status says of its listener's routes; an error while it says nothing.
func (c *cluster) attached(ctx context.Context, gateway string) (int64, error) {
	u, err := c.client.Resource(gateways).Namespace(c.namespace).Get(ctx, gateway, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	listeners, _, err := unstructured.NestedSlice(u.Object, "status", "listeners")
	if err != nil || len(listeners) == 0 {
		return 0, fmt.Errorf("no listeners in the status of Gateway %s: %w", gateway, err)
	}
	n, _, err := unstructured.NestedInt64(listeners[0].(map[string]any), "attachedRoutes")
	return n, err
}

// accepted counts the routes whose first parent has accepted them.
func (c *cluster) accepted(ctx context.Context) (n int, err error) {
	list, err := c.client.Resource(httpRoutes).Namespace(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, route := range list.Items {
		parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
		for _, parent := range parents {
			conditions, _, _ := unstructured.NestedSlice(parent.(map[string]any), "conditions")
			for _, condition := range conditions {
				if m := condition.(map[string]any); m["type"] == "Accepted" && m["status"] == "True" {
					n++
				}
			}
		}
	}
	return n, nil
}
