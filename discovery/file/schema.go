package file

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/penstock-project/penstock/discovery/file/fastvalidation"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests"
)

type schema struct {
	shape     *structural.Structural
	fast      *fastvalidation.Schema
	libraries func() (*libraries, error)
	quotable  func(path string) bool
}

type libraries struct {
	values validation.SchemaValidator
	rules  *cel.Validator
}

func newSchema(k *kind) (*schema, error) {
	props, err := schemaProps(k)
	if err != nil {
		return nil, err
	}
	meta := metadataProps()
	props.Properties["metadata"] = meta
	s := &schema{quotable: func(path string) bool { return store.Quotable(k.table, path) }}
	if s.shape, err = structural.NewStructural(props); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", k.table.Kind(), err)
	}
	compiler, err := fastvalidation.NewCompiler()
	if err != nil {
		return nil, err
	}
	s.fast = compiler.Compile(s.shape)
	s.libraries = sync.OnceValues(func() (*libraries, error) {
		values, _, err := validation.NewSchemaValidator(props)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", k.table.Kind(), err)
		}
		return &libraries{values, cel.NewValidator(s.shape, true, math.MaxInt64)}, nil
	})
	return s, nil
}

func schemaProps(k *kind) (*apiextensions.JSONSchemaProps, error) {
	if k.crd == "" {
		return goProps(k.table.New()), nil
	}
	crd, err := manifests.CRD(k.table.Group(), k.crd)
	if err != nil {
		return nil, err
	}
	version := k.versions[0].apiVersion[len(k.table.Group())+1:]
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version
	})
	if i < 0 || crd.Spec.Versions[i].Schema == nil {
		return nil, fmt.Errorf("CRD %s has no schema for %s", crd.Name, version)
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[i].Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	bound(props, goProps(k.table.New()))
	return props, nil
}

// complete sets defaults. Like an API server, it treats a key without a value as absent.
func (s *schema) complete(obj map[string]any) {
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, s.shape)
	defaulting.Default(obj, s.shape)
}

// validate validates a document by the schema. CEL rules run only without other errors, because
// they assume the types of the schema.
func (s *schema) validate(ctx context.Context, obj map[string]any) (unknown []string, errs field.ErrorList, err error) {
	if s.fast.Valid(obj) {
		return nil, nil, nil
	}
	libs, err := s.libraries()
	if err != nil {
		return nil, nil, err
	}
	unknown = pruning.PruneWithOptions(obj, s.shape, false,
		structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	errs = validation.ValidateCustomResource(nil, obj, libs.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.shape, obj)...)
	if len(errs) == 0 {
		errs, _ = libs.rules.Validate(ctx, nil, s.shape, obj, nil, math.MaxInt64)
	}
	return unknown, errs, nil
}

func (s *schema) at(path string) *structural.Structural { return s.node(segments(path)) }

func (s *schema) node(segs []string) *structural.Structural {
	node := s.shape
	for _, seg := range segs {
		switch {
		case node == nil:
			return nil
		case node.Items != nil:
			node = node.Items
		case node.AdditionalProperties != nil:
			node = node.AdditionalProperties.Structural
		default:
			p, ok := node.Properties[seg]
			if !ok {
				return nil
			}
			node = &p
		}
	}
	return node
}
