package installed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

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

// Start starts a lab in dir with Penstock in it. The working directory is conformance, as CRDs are looked up by its go.mod;
// `make build labs` has made what it runs. Penstock is ready when Start returns: its GatewayClass says that it is accepted, and what
// it supports. The caller ends the lab with Down.
func Start(ctx context.Context, dir string) (*lab.Lab, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs("../bin/penstock")
	if err != nil {
		return nil, err
	}
	l, err := lab.Start(ctx, lab.Config{Dir: dir, Images: []image.Image{
		{Name: "penstock-project/penstock", Program: program, Path: "/usr/local/bin/penstock"},
	}})
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err == nil {
		err = install(ctx, config)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("install Penstock: %w", err), l.Down())
	}
	return l, nil
}

// install applies the manifests and waits until Penstock has said something of its class.
func install(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := apply(ctx, config, client, "../manifests/install/penstock.yaml"); err != nil {
		return err
	}
	classes := client.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gatewayclasses"})
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		class, err := classes.Get(ctx, "penstock", metav1.GetOptions{})
		if err != nil {
			return false, nil // the API server may be busy with its CRDs still
		}
		features, _, _ := unstructured.NestedSlice(class.Object, "status", "supportedFeatures")
		return len(features) > 0, nil
	})
}

// apply does with a file of manifests what `kubectl apply --server-side` does.
func apply(ctx context.Context, config *rest.Config, client dynamic.Interface, file string) error {
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(found)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
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
		if u.GetNamespace() != "" {
			to = client.Resource(mapping.Resource).Namespace(u.GetNamespace())
		}
		if _, err := to.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "conformance", Force: true}); err != nil {
			return fmt.Errorf("%s %s: %w", kind.Kind, u.GetName(), err)
		}
	}
}
