package v1alpha1_test

import (
	"encoding/json"
	"strings"
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
				t.Errorf("%s of models %#v: got %#v, want nil where it was nil", name, models, got.Spec)
			}
		}
	}
}

// A template without a value must not permit everything.
func TestAPIKey_NullPermitsNothing(t *testing.T) {
	for _, name := range []string{"models", "pools", "expires", "disabled"} {
		var key v1alpha1.APIKey
		err := json.Unmarshal([]byte(`{"spec": {"hashes": [], "`+name+`": null}}`), &key)
		if err == nil || !strings.Contains(err.Error(), "spec."+name+": null is no ") {
			t.Errorf("%s null in JSON: got %v, want an error that names the field", name, err)
		}
		object := map[string]any{"spec": map[string]any{"hashes": []any{}, name: nil}}
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object, &key)
		if err == nil || !strings.Contains(err.Error(), "spec."+name+": null is no ") {
			t.Errorf("%s null in a cluster's object: got %v, want an error that names the field", name, err)
		}
	}
}
