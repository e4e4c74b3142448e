package v1alpha1_test

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// A null is not the absence of a field: the policy would let in more without it.
func TestAccessPolicy_NullsAreKnown(t *testing.T) {
	for spec, want := range map[string][]string{
		`{"apiKeys": {}, "jwt": {"claims": {"owner": "sub"}}}`:    nil,
		`{"apiKeys": null, "jwt": null, "except": null}`:          nil,
		`{"apiKeys": {"selector": null}}`:                         {"apiKeys.selector"},
		`{"apiKeys": {"namespaces": null}}`:                       {"apiKeys.namespaces"},
		`{"apiKeys": {"selector": {"matchLabels": null}}}`:        {"apiKeys.selector.matchLabels"},
		`{"apiKeys": {"selector": {"matchLabels": {"b": null}}}}`: {"apiKeys.selector.matchLabels.b"},
		`{"apiKeys": {"selector": {"matchLabels": {}, "matchExpressions": null}}}`: {
			"apiKeys.selector.matchExpressions"},
		`{"jwt": {"claims": {"models": null}}}`:            {"jwt.claims.models"},
		`{"jwt": {"claims": null, "jwks": null}}`:          {"jwt.claims", "jwt.jwks"},
		`{"jwt": {"caCertificateRefs": null, "jwks": {}}}`: {"jwt.caCertificateRefs"},
	} {
		var fromJSON, fromCluster v1alpha1.AccessPolicy
		text := []byte(`{"spec": ` + spec + `}`)
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		for name, decode := range map[string]func() (*v1alpha1.AccessPolicy, error){
			"JSON": func() (*v1alpha1.AccessPolicy, error) { return &fromJSON, json.Unmarshal(text, &fromJSON) },
			"a cluster": func() (*v1alpha1.AccessPolicy, error) {
				return &fromCluster, runtime.DefaultUnstructuredConverter.FromUnstructured(object, &fromCluster)
			},
		} {
			got, err := decode()
			if err != nil || !slices.Equal(got.Spec.Nulls, want) {
				t.Errorf("%s of %s: %v %v, want %v", name, spec, got.Spec.Nulls, err, want)
			}
		}
	}
}
