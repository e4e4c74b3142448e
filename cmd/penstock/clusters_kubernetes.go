package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const (
	clusterCallTimeout = 15 * time.Second
	commandManager     = "penstock-clusters"
)

type clusterObject struct {
	client  dynamic.ResourceInterface
	host    string
	set     v1alpha1.ClusterSet
	written []metav1.ManagedFieldsEntry
}

func openClusterObject(ctx context.Context, kubeconfig string) (*clusterObject, error) {
	config, _, err := clusterAt(nil, kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = clusterCallTimeout
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
	}
	c := &clusterObject{
		host: config.Host,
		client: client.Resource(schema.GroupVersionResource{
			Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "clustersets",
		}),
	}
	return c, c.read(ctx)
}

func (c *clusterObject) read(ctx context.Context) error {
	list, err := c.client.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the API server at %s does not serve the kind ClusterSet (penstock.dev/v1alpha1): install "+
			"the CRDs of Penstock's chart, or name another cluster with --kubeconfig", c.host)
	case err != nil:
		return c.failed("ClusterSet", "list", err)
	case len(list.Items) == 0:
		return fmt.Errorf("there is no ClusterSet at %s: apply one, with the name of this cluster in spec.cluster",
			c.host)
	case len(list.Items) > 1:
		var names []string
		for _, u := range list.Items {
			names = append(names, u.GetName())
		}
		return fmt.Errorf("there are several ClusterSets at %s, and only one takes effect: keep one of %s (penstock "+
			"status shows the one that is accepted)", c.host, strings.Join(names, ", "))
	}
	return c.take(&list.Items[0])
}

func (c *clusterObject) take(u *unstructured.Unstructured) error {
	c.set, c.written = v1alpha1.ClusterSet{}, u.GetManagedFields()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &c.set); err != nil {
		return fmt.Errorf("ClusterSet %s cannot be read: %w", u.GetName(), err)
	}
	return nil
}

func (c *clusterObject) failed(object, verb string, err error) error {
	switch call := (*url.Error)(nil); {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: the user of --kubeconfig is forbidden to %s it: allow list and patch of clustersets in "+
			"group penstock.dev by a ClusterRole (%w)", object, verb, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the credentials of --kubeconfig are not valid at %s: renew them (%w)", object, c.host,
			err)
	case errors.As(err, &call):
		return fmt.Errorf("%s: the API server at %s cannot be reached: %w; correct clusters[].cluster of "+
			"--kubeconfig, or the network", object, c.host, call.Err)
	default:
		return fmt.Errorf("%s: %s: %w", object, verb, err)
	}
}

func (c *clusterObject) now() *v1alpha1.ClusterSetSpec { return &c.set.Spec }

func (c *clusterObject) place() (object, written string) {
	name := "ClusterSet " + c.set.Name
	return name, name
}

func (c *clusterObject) check(draining, leave bool) error {
	if by := c.writers("members"); leave && len(by) > 0 {
		return fmt.Errorf("ClusterSet %s: spec.members: %s has written it, and may write it again: run penstock "+
			"clusters drain, and remove it there", c.set.Name, strings.Join(by, ", "))
	}
	if by := c.writers("draining"); c.set.Spec.Draining != draining && len(by) > 0 {
		return fmt.Errorf("ClusterSet %s: spec.draining: %s has written it, and may write it again: set it to %t there",
			c.set.Name, strings.Join(by, ", "), draining)
	}
	return nil
}

// writers returns the field managers, other than penstock and kubectl, that own a field of spec.
func (c *clusterObject) writers(field string) (out []string) {
	for _, w := range c.written {
		var fields struct {
			Spec map[string]any `json:"f:spec"`
		}
		if w.FieldsV1 == nil || json.Unmarshal(w.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Spec["f:"+field]; ok && w.Manager != commandManager &&
			!strings.HasPrefix(w.Manager, "kubectl") {
			out = append(out, w.Manager)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (c *clusterObject) change(ctx context.Context, draining, leave bool) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.check(draining, leave); err != nil {
			return err
		}
		spec := map[string]any{"draining": nil} // null removes the field
		if draining {
			spec["draining"] = true
		}
		if leave {
			spec["members"] = nil
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": c.set.ResourceVersion}, "spec": spec,
		})
		if err != nil {
			return err
		}
		u, err := c.client.Patch(ctx, c.set.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: commandManager})
		if apierrors.IsConflict(err) {
			if again := c.read(ctx); again != nil {
				return again
			}
			return err
		}
		if err != nil {
			return c.failed("ClusterSet "+c.set.Name+": spec.draining", "patch", err)
		}
		return c.take(u)
	})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("ClusterSet %s: another client changes it all the time, so spec.draining is not written: "+
			"run the command again (%w)", c.set.Name, err)
	}
	return err
}
