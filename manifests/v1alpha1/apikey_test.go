package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// An empty list permits nothing, and none permits everything: no copy may make one of the other.
func TestAPIKey_EmptyListsStayEmpty(t *testing.T) {
	for _, models := range [][]string{nil, {}} {
		key := &v1alpha1.APIKey{Spec: v1alpha1.APIKeySpec{Models: models}}
		if models != nil {
			key.Spec.Pools = []v1alpha1.KeyPool{}
		}
		var fromJSON, fromCluster v1alpha1.APIKey
		raw, err := json.Marshal(key)
		if err == nil {
			err = json.Unmarshal(raw, &fromJSON)
		}
		if err != nil {
			t.Fatal(err)
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(key)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object, &fromCluster)
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]*v1alpha1.APIKey{"JSON": &fromJSON, "a cluster": &fromCluster,
			"a copy": key.DeepCopyObject().(*v1alpha1.APIKey)} {
			if (got.Spec.Models == nil) != (models == nil) || (got.Spec.Pools == nil) != (models == nil) {
				t.Errorf("%s of models %#v: %#v", name, models, got.Spec)
			}
		}
	}
}
