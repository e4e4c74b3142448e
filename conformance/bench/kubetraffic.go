package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// echoImage is the echo server of Gateway API's conformance tests.
const echoImage = "gcr.io/k8s-staging-gateway-api/echo-basic:v20251106-v1.3.0-263-g47c3435c"

// measureKubeTraffic counts the requests that common operations on a cluster lose.
func measureKubeTraffic(ctx context.Context, _ config, out report) error {
	cluster, err := installedCluster(ctx)
	if err != nil {
		return err
	}
	defer cluster.end()
	address, err := cluster.application(ctx)
	if err != nil {
		return err
	}
	t := &traffic{url: "http://" + address + "/"}
	if err := eventually(ctx, func() error { return t.once(ctx) }); err != nil {
		return fmt.Errorf("the gateway at %s never answered: %w", address, err)
	}
	loaded, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { t.run(loaded) })
	err = cluster.usualDay(ctx)
	stop()
	running.Wait()
	out("kube_failed_requests", "", float64(t.failed.Load()))
	out("kube_failed_requests", "sent", float64(t.sent.Load()))
	if first := t.first.Load(); first != nil {
		fmt.Fprintln(os.Stderr, "bench: first failed request:", *first)
	}
	return err
}

// usualDay switches the route's backend 20 times, 200 ms apart, and rolls out penstock, the
// backends and the Gateway's Envoys.
func (c *cluster) usualDay(ctx context.Context) error {
	for i := range 20 {
		if err := c.point(ctx, []string{"b", "a"}[i%2]); err != nil {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	envoys, err := c.client.Resource(deployments).Namespace(c.namespace).
		List(ctx, metav1.ListOptions{LabelSelector: "gateway.networking.k8s.io/gateway-name=gw"})
	if err != nil || len(envoys.Items) != 1 {
		return fmt.Errorf("%d Deployments of the Gateway: %w", len(envoys.Items), err)
	}
	for _, r := range []struct{ namespace, name string }{
		{"penstock-system", "penstock"}, {c.namespace, "a"}, {c.namespace, "b"},
		{c.namespace, envoys.Items[0].GetName()},
	} {
		fmt.Fprintf(os.Stderr, "bench: rolling out %s/%s\n", r.namespace, r.name)
		if err := c.rollout(ctx, r.namespace, r.name); err != nil {
			return fmt.Errorf("rollout of %s/%s: %w", r.namespace, r.name, err)
		}
	}
	return nil
}

// application creates two backends, a Gateway and a route, and returns the Gateway's address once
// it has one.
func (c *cluster) application(ctx context.Context) (address string, err error) {
	for _, name := range []string{"a", "b"} {
		labels := map[string]any{"app": name}
		container := map[string]any{
			"name": "echo", "image": echoImage,
			"env": []any{map[string]any{"name": "POD_NAME", "value": name},
				map[string]any{"name": "NAMESPACE", "value": c.namespace}},
			"ports":          []any{map[string]any{"containerPort": 3000}},
			"readinessProbe": map[string]any{"tcpSocket": map[string]any{"port": 3000}, "periodSeconds": 1},
			"lifecycle":      map[string]any{"preStop": map[string]any{"sleep": map[string]any{"seconds": 3}}},
		}
		if err := errors.Join(
			c.create(ctx, deployments,
				map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name},
					"spec": map[string]any{"replicas": 2, "selector": map[string]any{"matchLabels": labels},
						"strategy": map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": 0}},
						"template": map[string]any{"metadata": map[string]any{"labels": labels},
							"spec": map[string]any{"containers": []any{container}}}}}),
			c.create(ctx, services,
				map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name},
					"spec": map[string]any{"selector": labels,
						"ports": []any{map[string]any{"port": 80, "targetPort": 3000}}}}),
		); err != nil {
			return "", err
		}
	}
	if err := errors.Join(
		c.create(ctx, gateways,
			map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
				"metadata": map[string]any{"name": "gw"},
				"spec": map[string]any{"gatewayClassName": "penstock",
					"listeners": []any{map[string]any{"name": "http", "port": 80, "protocol": "HTTP"}}}}),
		c.create(ctx, httpRoutes,
			map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
				"metadata": map[string]any{"name": "app"},
				"spec": map[string]any{"parentRefs": []any{map[string]any{"name": "gw"}},
					"rules": []any{map[string]any{"backendRefs": []any{map[string]any{"name": "a", "port": 80}}}}}}),
	); err != nil {
		return "", err
	}
	err = eventually(ctx, func() error {
		u, err := c.client.Resource(gateways).Namespace(c.namespace).Get(ctx, "gw", metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, _, err := unstructured.NestedSlice(u.Object, "status", "addresses")
		if err != nil || len(list) == 0 {
			return fmt.Errorf("the Gateway has no address: %w", err)
		}
		address, _, err = unstructured.NestedString(list[0].(map[string]any), "value")
		return err
	})
	return address, err
}

// point changes the route's backend.
func (c *cluster) point(ctx context.Context, backend string) error {
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/rules/0/backendRefs/0/name","value":%q}]`, backend)
	_, err := c.client.Resource(httpRoutes).Namespace(c.namespace).Patch(ctx, "app", types.JSONPatchType, []byte(patch),
		metav1.PatchOptions{})
	return err
}

// rollout replaces every pod of a Deployment, like `kubectl rollout restart`, and waits until the
// last old one is gone, which the Deployment's status does not include.
func (c *cluster) rollout(ctx context.Context, namespace, name string) error {
	in := c.client.Resource(deployments).Namespace(namespace)
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`,
		time.Now().Format(time.RFC3339Nano))
	if _, err := in.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		u, err := in.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		number := func(path ...string) int64 {
			n, _, _ := unstructured.NestedInt64(u.Object, path...)
			return n
		}
		want := number("spec", "replicas")
		if number("status", "observedGeneration") != u.GetGeneration() || number("status", "updatedReplicas") != want ||
			number("status", "replicas") != want || number("status", "availableReplicas") != want {
			return fmt.Errorf("%d of %d pods are new, %d exist", number("status", "updatedReplicas"), want,
				number("status", "replicas"))
		}
		labels, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector", "matchLabels")
		list, err := c.client.Resource(pods).Namespace(namespace).List(ctx,
			metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(metav1.SetAsLabelSelector(labels))})
		if err == nil && int64(len(list.Items)) != want {
			err = fmt.Errorf("%d pods of %d", len(list.Items), want)
		}
		return err
	})
}

// traffic is load on one URL.
type traffic struct {
	url          string
	sent, failed atomic.Int64
	first        atomic.Pointer[string] // the first error
}

// run sends 200 requests a second over a few connections until ctx ends.
func (t *traffic) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				t.sent.Add(1)
				if err := t.once(context.WithoutCancel(ctx)); err != nil {
					text := fmt.Sprintf("%s: %v", time.Now().Format(time.TimeOnly), err)
					t.first.CompareAndSwap(nil, &text)
					t.failed.Add(1)
				}
			}
		})
	}
	workers.Wait()
}

func (t *traffic) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return nil
}
