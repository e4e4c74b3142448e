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

// fieldManager owns what the lab applies.
const fieldManager = "lab"

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	policies    = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	bindings    = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}

	// applicable are the kinds that releases of CRDs consist of.
	applicable = map[string]schema.GroupVersionResource{
		"CustomResourceDefinition":         definitions,
		"ValidatingAdmissionPolicy":        policies,
		"ValidatingAdmissionPolicyBinding": bindings,
	}
)

// apply applies the objects in the files, and waits until the kinds that they define are served. Of two files that
// define the same kind, the later one wins.
func apply(ctx context.Context, config *rest.Config, paths []string) error {
	objects := map[string]*unstructured.Unstructured{}
	for _, path := range paths {
		if err := read(path, objects); err != nil {
			return err
		}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, o := range objects {
		g.Go(func() error {
			resource := applicable[o.GetKind()]
			if _, err := client.Resource(resource).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
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

// read adds the objects in a file, or in all YAML files of a folder, to the set.
func read(path string, into map[string]*unstructured.Unstructured) error {
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("CRDs: %w", err)
		}
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)) || strings.HasPrefix(entry.Name(), "kustomiz") {
			return nil
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("CRDs: %w", err)
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			o := &unstructured.Unstructured{}
			if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("CRDs: %s: %w", name, err)
			}
			if len(o.Object) == 0 {
				continue
			}
			if _, ok := applicable[o.GetKind()]; !ok {
				return fmt.Errorf("CRDs: %s: a %s is not part of a release of CRDs", name, o.GetKind())
			}
			into[o.GetKind()+"/"+o.GetName()] = o
		}
	})
}

// established tells whether the API server serves a kind.
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
