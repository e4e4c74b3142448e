//go:build linux

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const fieldManager = "lab"

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

var resources = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition": definitions,
	"ValidatingAdmissionPolicy": {Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingadmissionpolicies"},
	"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingadmissionpolicybindings"},
	"ServiceAccount": {Version: "v1", Resource: "serviceaccounts"},
	"ConfigMap":      {Version: "v1", Resource: "configmaps"},
	"Service":        {Version: "v1", Resource: "services"},
	"Deployment":     {Group: "apps", Version: "v1", Resource: "deployments"},
	"ClusterRole":    {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1",
		Resource: "clusterrolebindings"},
}

type objects map[string]*unstructured.Unstructured

// apply creates or updates the objects, and waits until the API server serves the kinds that CRDs
// among them define.
func (all objects) apply(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, o := range all {
		g.Go(func() error {
			resource := resources[o.GetKind()]
			var where dynamic.ResourceInterface = client.Resource(resource)
			if o.GetNamespace() != "" {
				where = client.Resource(resource).Namespace(o.GetNamespace())
			}
			if _, err := where.Apply(ctx, o.GetName(), o,
				metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
				return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			if resource != definitions {
				return nil
			}
			return until(ctx, func(ctx context.Context) error { return established(ctx, client, o.GetName()) })
		})
	}
	return g.Wait()
}

// read adds the objects in a file, or in all YAML files of a folder. A later object replaces an
// earlier object of the same kind and name.
func (all objects) read(path string) error {
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)) ||
			strings.HasPrefix(entry.Name(), "kustomiz") {
			return nil
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return all.parse(name, raw)
	})
}

func (all objects) parse(name string, raw []byte) error {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if _, ok := resources[o.GetKind()]; !ok {
			return fmt.Errorf(
				"%s: kind %s is not supported here; a release of CRDs contains CRDs, policies and DNS objects only",
				name, o.GetKind())
		}
		all[o.GetKind()+"/"+o.GetName()] = o
	}
}

func established(ctx context.Context, client dynamic.Interface, name string) error {
	crd, err := client.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for _, raw := range conditions {
		if c, ok := raw.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("CRD %s is not established", name)
}
