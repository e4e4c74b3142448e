package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/penstock-project/penstock/conformance/lab/installed"
)

//go:embed ownpicker.yaml
var ownPickerYAML []byte

// needPicker lists the tests that need the suite's own picker.
const needPicker = "EppUnAvailableFailOpen,GatewayDestinationEndpointServed,GatewayFollowingEPPRouting," +
	"GatewayFollowingEPPRoutingWithDataParallelism,GatewayWeightedAcrossTwoInferencePools,InferencePoolAppProtocol,InferencePoolInvalidEPPService"

// ownPicker makes the API server remove the picker reference from each new InferencePool, so that
// Penstock's built-in picker picks.
func ownPicker(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	if err := installed.Apply(ctx, config, "", ownPickerYAML); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	pools := client.Resource(schema.GroupVersionResource{
		Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools",
	}).Namespace("default")
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
		"metadata": map[string]any{"name": "own-picker"},
		"spec": map[string]any{
			"selector":          map[string]any{"matchLabels": map[string]any{"app": "own-picker"}},
			"targetPorts":       []any{map[string]any{"number": int64(8000)}},
			"endpointPickerRef": map[string]any{"name": "epp", "port": map[string]any{"number": int64(9002)}},
		},
	}}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			made, err := pools.Create(ctx, pool, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if last = err; err != nil {
				return false, nil // tries again; the last error is returned
			}
			_, still, _ := unstructured.NestedMap(made.Object, "spec", "endpointPickerRef")
			return !still, nil
		})
	if err != nil {
		return fmt.Errorf("the API server does not remove the picker reference from InferencePools: %w",
			errors.Join(err, last))
	}
	return nil
}
