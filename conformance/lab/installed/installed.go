package installed

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/image"
)

// Start calls Prepare, installs Penstock and waits until its GatewayClass lists the supported
// features. The caller ends the lab with Down.
func Start(ctx context.Context, config lab.Config) (*lab.Lab, error) {
	if config.Root == "" {
		root, err := lab.Repository()
		if err != nil {
			return nil, err
		}
		config.Root = root
	}
	l, err := Prepare(ctx, config)
	if err != nil {
		return nil, err
	}
	client, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err == nil {
		err = install(ctx, client, filepath.Join(config.Root, "manifests", "install", "penstock.yaml"))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("install Penstock: %w", err), l.Down())
	}
	return l, nil
}

// Prepare starts a lab with Penstock's image and the images of config. The caller ends the lab with
// Down. Penstock's program is bin/penstock, or comes from the unpacked image in $PENSTOCK_IMAGE.
//
// Unless config.ReleasesOf is set, the working directory must be inside conformance, whose go.mod
// selects the CRDs' versions.
func Prepare(ctx context.Context, config lab.Config) (*lab.Lab, error) {
	var err error
	if config.Dir, err = filepath.Abs(config.Dir); err != nil {
		return nil, err
	}
	if config.Root == "" {
		if config.Root, err = lab.Repository(); err != nil {
			return nil, err
		}
	}
	program := filepath.Join(config.Root, "bin", "penstock")
	if rootfs := os.Getenv("PENSTOCK_IMAGE"); rootfs != "" {
		program = filepath.Join(rootfs, "usr", "local", "bin", "penstock")
	}
	config.Images = append(slices.Clone(config.Images),
		image.Image{Name: "penstock-project/penstock", Program: program, Path: "/usr/local/bin/penstock"})
	return lab.Start(ctx, config)
}

func install(ctx context.Context, config *rest.Config, manifests string) error {
	text, err := os.ReadFile(manifests)
	if err != nil {
		return err
	}
	if err := Apply(ctx, config, "", text); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	classes := client.Resource(schema.GroupVersionResource{
		Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gatewayclasses",
	})
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			class, err := classes.Get(ctx, "penstock", metav1.GetOptions{})
			if err != nil {
				return false, nil // the API server may not serve the CRDs yet
			}
			features, _, _ := unstructured.NestedSlice(class.Object, "status", "supportedFeatures")
			return len(features) > 0, nil
		})
}

// Apply applies manifests as `kubectl apply --server-side` does. namespace is for namespaced
// objects that set none.
func Apply(ctx context.Context, config *rest.Config, namespace string, manifests []byte) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(found)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &u.Object); err != nil {
			return err
		}
		if len(u.Object) == 0 { // comments only
			continue
		}
		kind := u.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		to := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			to = client.Resource(mapping.Resource).Namespace(cmp.Or(u.GetNamespace(), namespace))
		}
		if _, err := to.Apply(ctx, u.GetName(), u,
			metav1.ApplyOptions{FieldManager: "conformance", Force: true}); err != nil {
			return fmt.Errorf("%s %s: %w", kind.Kind, u.GetName(), err)
		}
	}
}
