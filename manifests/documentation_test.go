package manifests_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/penstock-project/penstock/manifests"
)

// Readers copy examples from the documentation; an API server must accept each.
func TestDocumentation_ExamplesCanBeApplied(t *testing.T) {
	var text []byte
	tasks, err := filepath.Glob("../docs/*.md")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("docs has %d pages, want some: %v", len(tasks), err)
	}
	for _, page := range append(tasks, "../README.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, raw...)
	}
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, block := range regexp.MustCompile("(?m)^apiVersion: (?s:.*?)^(?:```|YAML)$").
		FindAllString(string(text), -1) {
		block = strings.TrimRight(block, "`YAML\n")
		for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(block), 4096); ; {
			u := &unstructured.Unstructured{}
			if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("got %v, want YAML in:\n%s", err, block)
			}
			kinds[u.GetKind()]++
			for _, f := range files {
				crd, err := manifests.CRD(f.Group, f.Plural)
				if err != nil {
					t.Fatal(err)
				}
				if crd.Spec.Names.Kind == u.GetKind() && crd.Spec.Group == u.GroupVersionKind().Group {
					applicable(t, crd, u)
				}
			}
		}
	}
	for _, kind := range []string{"Gateway", "HTTPRoute", "InferencePool", "InferencePoolImport", "PoolPolicy",
		"ModelServers", "EnvoyFleet"} {
		if kinds[kind] == 0 {
			t.Errorf("README.md and docs have examples of %v, want one of %s too", kinds, kind)
		}
	}
}

func applicable(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, u *unstructured.Unstructured) {
	t.Helper()
	for _, v := range crd.Spec.Versions {
		if v.Name != u.GroupVersionKind().Version {
			continue
		}
		props := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema,
			props, nil); err != nil {
			t.Fatal(err)
		}
		validator, _, err := validation.NewSchemaValidator(props)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range validation.ValidateCustomResource(nil, u.Object, validator) {
			t.Errorf("%s %s: got %v, want a valid object", u.GetKind(), u.GetName(), err)
		}
		shape, err := schema.NewStructural(props)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range pruning.PruneWithOptions(u.Object, shape, true,
			schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
			t.Errorf("%s %s: unknown field %s", u.GetKind(), u.GetName(), field)
		}
		return
	}
	t.Errorf("%s %s: version %s is not one of the CRD's", u.GetKind(), u.GetName(), u.GroupVersionKind().Version)
}
