package manifests_test

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests"
)

// A kind must not be read from files in a version that a cluster does not serve.
func TestCRD_EveryKindIsServedInTheVersionThatIsRead(t *testing.T) {
	versions := map[string]string{
		"GatewayClass": "v1", "Gateway": "v1", "ListenerSet": "v1", "HTTPRoute": "v1", "GRPCRoute": "v1",
		"TLSRoute": "v1", "TCPRoute": "v1", "UDPRoute": "v1",
		"ReferenceGrant": "v1beta1", "BackendTLSPolicy": "v1",
		"InferencePool": "v1", "InferenceModel": "v1alpha2", "InferenceModelRewrite": "v1alpha2",
		"InferenceObjective": "v1alpha2", "InferencePoolImport": "v1alpha1",
		"ModelServers": "v1alpha1", "PoolPolicy": "v1alpha1", "EnvoyFleet": "v1alpha1", "ClusterSet": "v1alpha1",
		"PoolExport": "v1alpha1", "Engine": "v1alpha1", "ModelRegistry": "v1alpha1", "ModelDeployment": "v1alpha1",
		"APIKey": "v1alpha1", "AccessPolicy": "v1alpha1",
		"ServiceImport": "v1beta1", "ClusterProperty": "v1alpha1",
	}
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range files {
		crd, err := manifests.CRD(f.Group, f.Plural)
		if err != nil {
			t.Fatal(err)
		}
		kind := crd.Spec.Names.Kind
		found[kind] = true
		if crd.Name != f.Plural+"."+f.Group {
			t.Errorf("%s_%s.yaml defines %s, want %s", f.Group, f.Plural, crd.Name, f.Plural+"."+f.Group)
		}
		var have []string
		for _, v := range crd.Spec.Versions {
			if v.Served {
				have = append(have, v.Name)
			}
		}
		if !slices.Contains(have, versions[kind]) {
			t.Errorf("%s is served in %v, want also %q, which is read", kind, have, versions[kind])
		}
		for _, table := range store.Tables() {
			if table.Kind() == kind && table.Group() != f.Group {
				t.Errorf("%s: the store has group %s, want %s as in the CRD", kind, table.Group(), f.Group)
			}
		}
	}
	for kind := range versions {
		if !found[kind] {
			t.Errorf("no CRD for %s", kind)
		}
	}
}

// An API server rejects a CRD whose schema is not structural or whose rules do not compile.
func TestCRD_CanBeInstalled(t *testing.T) {
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		crd, err := manifests.CRD(f.Group, f.Plural)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			props := &apiextensions.JSONSchemaProps{}
			if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
				v.Schema.OpenAPIV3Schema, props, nil); err != nil {
				t.Fatal(err)
			}
			shape, err := schema.NewStructural(props)
			if err != nil {
				t.Errorf("%s %s: %v, want a structural schema", crd.Name, v.Name, err)
				continue
			}
			for _, err := range schema.ValidateStructural(nil, shape) {
				t.Errorf("%s %s: %v, want a structural schema", crd.Name, v.Name, err)
			}
			if errs, err := defaulting.ValidateDefaults(context.Background(), nil, shape, true, true); err != nil ||
				len(errs) > 0 {
				t.Errorf("%s %s: defaults: %v %v, want none", crd.Name, v.Name, err, errs)
			}
		}
	}
}

// A fleet with such a spec could not serve, or its addresses would not fit a status.
func TestEnvoyFleet_InvalidSpecIsRejected(t *testing.T) {
	crd, err := manifests.CRD("penstock.dev", "envoyfleets")
	if err != nil {
		t.Fatal(err)
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil); err != nil {
		t.Fatal(err)
	}
	shape, err := schema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	rules := cel.NewValidator(shape, true, celconfig.PerCallLimit)
	for text, good := range map[string]bool{
		"{resources: {limits: {memory: 1Mi}}}": false, "{resources: {limits: {memory: 1048576}}}": false,
		"{resources: {limits: {memory: 64Mi}}}": true, "{resources: {limits: {memory: 2000000000}}}": true,
		"{resources: {limits: {cpu: 1}}}": true, "{resources: {requests: {memory: 1Mi}}}": true,
		"{mode: external, external: {addresses: ['not an address!']}}":                                      false,
		"{mode: external, external: {addresses: ['300.1.1.1']}}":                                            false,
		"{mode: external, external: {addresses: ['fe80::1%eth0']}}":                                         false,
		"{mode: external, external: {addresses: ['192.0.2.1', '2001:db8::1', 'edge.example.com', 'edge']}}": true,
	} {
		var spec any
		if raw, err := yaml.YAMLToJSON([]byte(text)); err != nil {
			t.Fatal(err)
		} else if err := json.Unmarshal(raw, &spec); err != nil {
			t.Fatal(err)
		}
		errs, _ := rules.Validate(t.Context(), nil, shape, map[string]any{"spec": spec}, nil,
			celconfig.RuntimeCELCostBudget)
		if (len(errs) == 0) != good {
			t.Errorf("%s: got %v, want errors: %t", text, errs, !good)
		}
	}
}

// Any writer of an import's status could otherwise fill the memory of every process.
func TestInferencePoolImport_ListsAreBounded(t *testing.T) {
	crd, err := manifests.CRD("inference.networking.x-k8s.io", "inferencepoolimports")
	if err != nil {
		t.Fatal(err)
	}
	var unbounded []string
	var walk func(path string, p apiextensionsv1.JSONSchemaProps)
	walk = func(path string, p apiextensionsv1.JSONSchemaProps) {
		if p.Type == "array" && p.MaxItems == nil {
			unbounded = append(unbounded, path)
		}
		for name, field := range p.Properties {
			walk(path+"."+name, field)
		}
		if p.Items != nil && p.Items.Schema != nil {
			walk(path+"[]", *p.Items.Schema)
		}
	}
	walk("", *crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	slices.Sort(unbounded)
	// Upstream's own type, in which gateway controllers write their entry.
	if want := []string{".status.controllers[].exportingClusters",
		".status.controllers[].parents"}; !slices.Equal(unbounded, want) {
		t.Errorf("lists without maxItems: %q, want %q", unbounded, want)
	}
}
