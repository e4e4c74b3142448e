package file_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// testdata/seeds has YAML from published documents, unchanged: a v1alpha2 pool with
// targetPortNumber and extensionRef, portNumber in a picker's reference, v1beta1 routes, an import
// with service as an object.
func TestFile_PublishedExamplesAreValid(t *testing.T) {
	f := newFolder(t)
	examples, err := filepath.Glob("testdata/seeds/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, e := range examples {
		raw, err := os.ReadFile(e)
		if err != nil {
			t.Fatal(err)
		}
		f.write(filepath.Base(e), string(raw))
	}
	f.load()
	f.expectFindings()

	view := f.store.View()
	port := inferencev1.Port{Number: 9002}
	want := map[string]inferencev1.InferencePoolSpec{
		"default/vllm-llama2-7b-pool": {
			Selector: inferencev1.LabelSelector{
				MatchLabels: map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "vllm-llama2-7b"},
			},
			TargetPorts: []inferencev1.Port{{Number: 8000}},
			EndpointPickerRef: &inferencev1.EndpointPickerRef{
				Kind: "Service", Name: "vllm-llama2-7b-endpoint-picker", Port: &port, FailureMode: "FailClose",
			},
		},
		"example/llm-pool": {
			Selector: inferencev1.LabelSelector{
				MatchLabels: map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "my-model"},
			},
			TargetPorts: []inferencev1.Port{{Number: 8080}},
			EndpointPickerRef: &inferencev1.EndpointPickerRef{
				Kind: "Service", Name: "epp", Port: &port, FailureMode: "FailClose",
			},
		},
	}
	for id, spec := range want {
		pool, ok := store.InferencePools.Get(view, id)
		if !ok {
			t.Errorf("no pool %s", id)
			continue
		}
		got := pool.Spec
		group := inferencev1.Group("")
		spec.EndpointPickerRef.Group = &group
		spec.AppProtocol = "http"
		if diff := cmp.Diff(spec, got); diff != "" {
			t.Errorf("pool %s (-want +got):\n%s", id, diff)
		}
	}
	imp, ok := store.InferencePoolImports.Get(view, "example/llm-pool")
	if !ok || len(imp.Status.Clusters) != 1 ||
		imp.Status.Clusters[0].EndpointPicker.Service[0].Addresses[0] != "1.2.3.4" {
		t.Errorf("import: got %+v, want one cluster with its picker at 1.2.3.4", imp)
	}
	if r, ok := store.HTTPRoutes.Get(view, "example/llm-route"); !ok ||
		string(r.Spec.Rules[0].BackendRefs[0].Name) != "llm-pool-cluster-a" {
		t.Errorf("v1beta1 route: got %+v, want the backend llm-pool-cluster-a", r)
	}
	if r, ok := store.HTTPRoutes.Get(view, "default/llm-route"); !ok || *r.Spec.Rules[0].BackendRefs[0].Weight != 1 {
		t.Errorf("route: got %+v, want the default weight 1", r)
	}
}
