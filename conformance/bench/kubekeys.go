package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	apiKeys = schema.GroupVersionResource{Group: "penstock.dev", Version: "v1alpha1", Resource: "apikeys"}
	access  = schema.GroupVersionResource{Group: "penstock.dev", Version: "v1alpha1", Resource: "accesspolicies"}
)

// measureKubeKeys is keyInForce on Kubernetes. The authorization server is called directly, because
// Penstock runs outside the lab.
func measureKubeKeys(ctx context.Context, c config, out report) error {
	cluster, err := bareCluster(ctx)
	if err != nil {
		return err
	}
	defer cluster.end()
	object := func(kind string, spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "penstock.dev/v1alpha1", "kind": kind,
			"metadata": map[string]any{"name": "clients"}, "spec": spec}
	}
	key, hash := newKey()
	if err := errors.Join(
		cluster.create(ctx, access, object("AccessPolicy", map[string]any{"apiKeys": map[string]any{},
			"targetRefs": []any{map[string]any{"kind": "Gateway", "name": "gw"}}})),
		cluster.create(ctx, apiKeys, object("APIKey", map[string]any{"hashes": []any{hash}}))); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "penstock-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }()
	picker := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := start(c.penstock, "serve", "--kubeconfig", cluster.kubeconfig, "--state", state, "--picker", picker,
		"--log-level", "warn")
	if err != nil {
		return err
	}
	defer p.stop()
	informer, err := cluster.inform(ctx, apiKeys)
	if err != nil {
		return err
	}
	defer informer.watch.Stop()
	disable := func(disabled bool) (version string, err error) {
		u, err := cluster.client.Resource(apiKeys).Namespace(cluster.namespace).Patch(ctx, "clients",
			types.MergePatchType, fmt.Appendf(nil, `{"spec": {"disabled": %t}}`, disabled), metav1.PatchOptions{})
		if err != nil {
			return "", err
		}
		return u.GetResourceVersion(), nil
	}
	policy := cluster.namespace + "/clients"
	var forces, events []time.Duration
	for range 30 {
		if _, err := disable(false); err != nil {
			return err
		}
		if err := becomes(ctx, picker, policy, key, false); err != nil {
			return fmt.Errorf("%w; its output:\n%s", err, p.output())
		}
		begin := time.Now()
		version, err := disable(true)
		if err != nil {
			return err
		}
		if err := becomes(ctx, picker, policy, key, true); err != nil {
			return err
		}
		forces = append(forces, time.Since(begin))
		at, err := informer.at(ctx, version)
		if err != nil {
			return err
		}
		events = append(events, at.Sub(begin))
	}
	out("kube_key_in_force", "", float64(median(forces))/float64(median(events)))
	out("kube_key_in_force", "denied", milliseconds(median(forces)))
	out("kube_key_in_force", "event", milliseconds(median(events)))
	return nil
}
