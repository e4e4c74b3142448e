package limits_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/penstock-project/penstock/manifests"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// server validates an exporting cluster as an API server does.
type server struct {
	t      *testing.T
	values validation.SchemaValidator
	shape  *structural.Structural
	rules  *cel.Validator
}

func newServer(t *testing.T) *server {
	t.Helper()
	crd, err := manifests.CRD(inferenceapi.Group, "inferencepoolimports")
	if err != nil {
		t.Fatal(err)
	}
	one := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["clusters"].Items.Schema
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(one, props, nil); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t}
	if s.values, _, err = validation.NewSchemaValidator(props); err != nil {
		t.Fatal(err)
	}
	if s.shape, err = structural.NewStructural(props); err != nil {
		t.Fatal(err)
	}
	s.rules = cel.NewValidator(s.shape, true, celconfig.PerCallLimit)
	return s
}

func (s *server) rejects(raw []byte) string {
	s.t.Helper()
	var obj map[string]any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if err := d.Decode(&obj); err != nil {
		s.t.Fatal(err)
	}
	withIntegers(obj)
	errs := validation.ValidateCustomResource(nil, obj, s.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.shape, obj)...)
	if len(errs) == 0 {
		errs, _ = s.rules.Validate(s.t.Context(), nil, s.shape, obj, nil, celconfig.RuntimeCELCostBudget)
	}
	if len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	return ""
}

// withIntegers makes whole numbers integers, as an API server's decoder does.
func withIntegers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = withIntegers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = withIntegers(e)
		}
	case float64:
		return int64(v)
	}
	return v
}

func seeds() []inferenceapi.ImportedCluster {
	one := int32(1)
	service := inferenceapi.ServiceImports{{
		Type: "ClusterIP", Addresses: []string{"192.0.2.1", "epp.example.com"},
		Ports: []inferenceapi.Port{{Number: 9002, Name: "grpc", AppProtocol: "kubernetes.io/h2c"}},
	}}
	at := metav1.Unix(1000, 0)
	ready := []metav1.Condition{
		{Type: "Ready", Status: "True", Reason: "Ready", LastTransitionTime: at},
		{Type: "EPPReady", Status: "True", Reason: "Ready", LastTransitionTime: at},
	}
	return []inferenceapi.ImportedCluster{{
		Name: "east", RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
		TargetPorts: []inferenceapi.Port{{Number: 8000}, {Number: 8001}},
		PodCIDRs:    []string{"10.1.0.0/16", "fd00::/64"},
		Weight:      &one, FailureMode: "FailOpen", AppProtocol: "http", Region: "here", Zone: "a", Conditions: ready,
		EndpointPicker: &inferenceapi.EndpointPickerImport{
			Name: "epp", Service: service, Pool: "team/chat", Peer: true,
			Health: &inferenceapi.EndpointImport{Port: 9003}, Metrics: &inferenceapi.EndpointImport{Port: 9090},
		},
	}, {
		Name: "west", RoutingMode: inferenceapi.ParentMode, Local: true,
		Parents: []inferenceapi.ParentImport{{
			Name: "gw", Namespace: "infra", Service: service, Hostname: "chat.example.com", Peer: true,
			Conditions: ready,
		}},
	}}
}

// edge sets a random value below v to a limit, or beyond it.
func edge(r *rand.Rand, v reflect.Value) {
	texts := []string{
		"", "x", "X", "FailClose", "https", "a/b", "A/b", "a.b", "-", strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("é", 63), strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("a", 317),
		"a/" + strings.Repeat("b", 315), "a/" + strings.Repeat("b", 316), strings.Repeat("a", 1025), "<&>\u2028\x00",
	}
	numbers := []int64{-1 << 31, -1, 0, 1, 65535, 65536, 1_000_000, 1_000_001, 1<<31 - 1}
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case v.IsNil() && r.IntN(2) == 0:
			v.Set(reflect.New(v.Type().Elem()))
		case r.IntN(4) == 0:
			v.SetZero()
		case !v.IsNil():
			edge(r, v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() {
			return
		}
		edge(r, v.Field(r.IntN(v.NumField())))
	case reflect.Slice:
		switch n := v.Len(); r.IntN(4) {
		case 0:
			most := []int{0, 1, 8, 9, 16, 17, 64, 65}[r.IntN(8)]
			list := reflect.MakeSlice(v.Type(), most, most)
			for i := range most {
				if n > 0 {
					list.Index(i).Set(v.Index(i % n))
				}
				if e := list.Index(i); e.Kind() == reflect.String && r.IntN(2) == 0 {
					e.SetString(fmt.Sprint(i))
				}
			}
			v.Set(list)
		default:
			if n > 0 {
				edge(r, v.Index(r.IntN(n)))
			}
		}
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Int32, reflect.Int64:
		v.SetInt(numbers[r.IntN(len(numbers))])
	case reflect.Bool:
		v.SetBool(!v.Bool())
	}
}

// Penstock accepts an entry of another cluster exactly if the API server does.
func TestCheck_AgreesWithTheAPIServersLibraries(t *testing.T) {
	s := newServer(t)
	r := rand.New(rand.NewPCG(37, 1))
	rejected := map[string]int{}
	for i := range 6_000 {
		c := &seeds()[i%2]
		for range 1 + r.IntN(3) {
			edge(r, reflect.ValueOf(c).Elem())
		}
		c.Endpoints = nil
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		size, bad := c.Violation()
		why := s.rejects(raw)
		if bad != nil && strings.Contains(bad.Problem, "bytes, at most") { // in no schema
			continue
		}
		if (bad != nil) != (why != "") {
			t.Fatalf("%s\ngot %v, and the API server's libraries report %q; want both to reject it or none",
				raw, bad, why)
		}
		if bad == nil && size < len(raw) {
			t.Fatalf("%s\nhas %d bytes, want at most the estimate of %d", raw, len(raw), size)
		}
		if bad != nil {
			if n := len(bad.Error()); n > 300 {
				t.Errorf("a violation of %d bytes: %v, want at most 300", n, bad)
			}
			rejected[bad.Field]++
		}
	}
	if len(rejected) < 40 {
		t.Errorf("the test has rejected few fields: %v, want at least 40 of them", rejected)
	}
}

func TestCheck_ValidSeedsPass(t *testing.T) {
	for _, c := range seeds() {
		if _, bad := c.Violation(); bad != nil {
			t.Errorf("%s: got %v, want no violation", c.Name, bad)
		}
	}
}

// JSON has no form of such a string, so a client would write another one without noticing.
func TestCheck_TextThatIsNotUTF8IsInvalid(t *testing.T) {
	c := seeds()[0]
	c.EndpointPicker.Service[0].Ports[0].Name = "grpc\xff"
	_, bad := c.Violation()
	if bad == nil || bad.Error() != "endpointPicker.service[0].ports[0].name is not UTF-8" {
		t.Errorf("got %v, want that the port's name is not UTF-8", bad)
	}
}

// Many entries that are valid alone must fit one object of an API server.
func TestCheck_LargeEntryIsInvalid(t *testing.T) {
	c := seeds()[0]
	list := make([]string, 64)
	for i := range list {
		list[i] = strings.Repeat("a", 200)
	}
	c.EndpointPicker.Service = inferenceapi.ServiceImports{{Addresses: list}, {Addresses: list}}
	if _, bad := c.Violation(); bad != nil {
		t.Errorf("25,600 bytes of addresses: got %v, want no violation", bad)
	}
	c.EndpointPicker.Service = append(c.EndpointPicker.Service, c.EndpointPicker.Service...)
	if _, bad := c.Violation(); bad == nil || !strings.Contains(bad.Error(), "at most 32768") {
		t.Errorf(`51,200 bytes of addresses: got %v, want "at most 32768"`, bad)
	}
}

func BenchmarkCheck(b *testing.B) {
	c := seeds()[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, bad := c.Violation(); bad != nil {
			b.Fatal(bad)
		}
	}
}
