package kubetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/penstock-project/penstock/manifests"
)

const database = 1_500_000

// Strict makes the server reject each status that the CRDs in manifests do not allow, and each
// object that would be too large for etcd, the database of a real API server.
func (s *Server) Strict(t testing.TB) {
	validators := map[string]func(Object) field.ErrorList{}
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if slices.Contains([]string{"inferencepools", "inferencepoolimports", "poolexports", "clustersets"}, f.Plural) {
			validators[f.Plural] = validator(t, f)
		}
	}
	s.Reject(func(resource string, obj Object) string {
		raw, _ := json.Marshal(obj) // cannot fail: obj was JSON
		if len(raw) > database {
			return "etcdserver: request is too large"
		}
		if validate := validators[resource]; validate != nil {
			if errs := validate(obj); len(errs) > 0 {
				return errs.ToAggregate().Error()
			}
		}
		return ""
	})
}

func validator(t testing.TB, f manifests.File) func(Object) field.ErrorList {
	t.Helper()
	crd, err := manifests.CRD(f.Group, f.Plural)
	if err != nil {
		t.Fatal(err)
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil); err != nil {
		t.Fatal(err)
	}
	shape, err := structural.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	values, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatal(err)
	}
	rules := cel.NewValidator(shape, true, celconfig.PerCallLimit)
	return func(obj Object) field.ErrorList {
		raw, _ := json.Marshal(Object{"status": obj["status"]}) // cannot fail: obj was JSON
		var status map[string]any
		if err := utiljson.Unmarshal(raw, &status); err != nil { // keeps whole numbers as integers
			return field.ErrorList{field.InternalError(nil, err)}
		}
		errs := validation.ValidateCustomResource(nil, status, values)
		// The validated value has only a status, so errors about a missing spec do not count.
		errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return strings.HasPrefix(e.Field, "spec") })
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, shape, status)...)
		if len(errs) == 0 {
			errs, _ = rules.Validate(context.Background(), nil, shape, status, nil, celconfig.RuntimeCELCostBudget)
		}
		return errs
	}
}
