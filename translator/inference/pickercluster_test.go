package inference_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// The result of a health probe must not change the cluster's hash. A starting control plane has
// probed no picker, so each start would replace the clusters of all external pickers.
func TestPickerCluster_ProbedHealthChangesVariantAndNotHash(t *testing.T) {
	s := store.New()
	if _, err := s.Apply(
		put(t, "Service", "metadata: {name: epp}\nspec: {ports: [{port: 9002}], selector: {app: epp}}"),
		put(t, "InferencePool", `metadata: {name: llm}
spec: {selector: {matchLabels: {app: llm}}, targetPorts: [{number: 8000}],
  endpointPickerRef: {name: epp, port: {number: 9002}}}`),
	); err != nil {
		t.Fatal(err)
	}
	before := pool(t, s.View(), "default/llm").Picker.Cluster
	probed := before
	probed.Config = 0
	dialect := &store.Dialect{ObjectMeta: metav1.ObjectMeta{Name: probed.String()}, Health: true}
	if _, err := s.Apply(store.Dialects.Put(dialect)); err != nil {
		t.Fatal(err)
	}
	after := pool(t, s.View(), "default/llm").Picker.Cluster
	if after.Variant == before.Variant {
		t.Fatalf("the cluster of a picker that serves health is %s, as before; want another variant", after)
	}
	if after.Config == 0 || after.Config != before.Config {
		t.Errorf("the hash of the configuration is %04x once the picker serves health, want %04x as before",
			after.Config, before.Config)
	}
}
