package main

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

type keyCluster struct {
	client    dynamic.NamespaceableResourceInterface
	host      string
	namespace string
}

func openKeyCluster(k *keyFlags) (*keyCluster, error) {
	config, namespace, err := clusterAt(nil, k.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = clusterCallTimeout
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", k.kubeconfig, err)
	}
	k.namespace = cmp.Or(k.namespace, namespace, metav1.NamespaceDefault)
	return &keyCluster{host: config.Host, namespace: k.namespace, client: client.Resource(schema.GroupVersionResource{
		Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "apikeys",
	})}, nil
}

func (k *keyCluster) failed(verb string, err error) error {
	if apierrors.IsNotFound(err) && verb != "change" {
		return fmt.Errorf("the API server at %s does not serve the kind APIKey (penstock.dev/v1alpha1): install the "+
			"CRDs of Penstock's chart, or name another cluster with --kubeconfig", k.host)
	}
	return fmt.Errorf("%s APIKeys at %s: %w", verb, k.host, err)
}

func (k *keyCluster) list(ctx context.Context) ([]storedKey, error) {
	list, err := k.client.Namespace(k.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, k.failed("list", err)
	}
	out := make([]storedKey, len(list.Items))
	for i := range list.Items {
		o := &list.Items[i]
		out[i] = storedOf(o)
		if err := out[i].problem; err != nil {
			out[i].problem = undecodableKey(o.GetNamespace(), o.GetName(), err)
		}
	}
	return out, nil
}

// storedOf decodes an APIKey. problem is the decoder's error.
func storedOf(o *unstructured.Unstructured) (out storedKey) {
	if out.problem = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &out.APIKey); out.problem == nil {
		return out
	}
	out.APIKey = v1alpha1.APIKey{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}
	// on error, there are no hashes
	out.Spec.Hashes, _, _ = unstructured.NestedStringSlice(o.Object, "spec", "hashes")
	return out
}

func undecodableKey(namespace, name string, err error) error {
	return fmt.Errorf("APIKey %s cannot be decoded, and lets nothing in: %w", objectid.Join(namespace, name), err)
}

func (k *keyCluster) create(ctx context.Context, keys ...*v1alpha1.APIKey) (string, error) {
	for i, key := range keys {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(key)
		if err != nil {
			return "", err
		}
		_, err = k.client.Namespace(key.Namespace).Create(ctx, &unstructured.Unstructured{Object: object},
			metav1.CreateOptions{FieldManager: keysManager})
		if err != nil && i > 0 {
			return "", fmt.Errorf("%d of %d APIKeys are created; repeat the command for the others: %w", i, len(keys),
				k.failed("create", err))
		}
		if err != nil {
			return "", k.failed("create", err)
		}
	}
	return k.host, nil
}

const keysManager = "penstock-keys"

func (k *keyCluster) change(ctx context.Context, namespace, name string,
	change func(*v1alpha1.APIKeySpec) error) error {
	client := k.client.Namespace(namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return k.failed("change", err)
		}
		var key v1alpha1.APIKey
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(now.Object, &key); err != nil {
			return undecodableKey(namespace, name, err)
		}
		if err := change(&key.Spec); err != nil {
			return err
		}
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&key.Spec)
		if err != nil {
			return err
		}
		now.Object["spec"] = spec
		_, err = client.Update(ctx, now, metav1.UpdateOptions{FieldManager: keysManager})
		if err != nil && !apierrors.IsConflict(err) { // after a conflict, the loop reads the object again
			return k.failed("change", err)
		}
		return err
	})
}
