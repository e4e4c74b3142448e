package fastvalidation

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/penstock-project/penstock/manifests"
)

const (
	// minCases and maxCases bound how many values are generated for one rule. After minCases, the
	// generation ends once the rule has accepted one value and rejected another.
	minCases = 40
	maxCases = 20_000
)

// oneDirection has the rules that no new object can violate, with the reason for each.
var oneDirection = map[string]string{
	"self == oldSelf": "a transition rule: it applies to updates, and objects in files are always new",
}

// fastvalidation must accept no invalid object. The test evaluates each rule of each version of
// each CRD in isolation, by fastvalidation and by apiextensions, and compares the results. Each
// rule must accept some value and reject another.
func TestCEL_EveryRuleAcceptsAndRejects(t *testing.T) {
	compiler, err := NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	rules, checked := 0, map[string][]*structural.Structural{}
	for _, f := range files {
		crd, err := manifests.CRD(f.Group, f.Plural)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			walkRules(structuralSchema(t, v.Schema.OpenAPIV3Schema), "",
				func(path string, node *structural.Structural, rule apiextensionsv1.ValidationRule) {
					rules++
					same := func(n *structural.Structural) bool { return reflect.DeepEqual(n, node) }
					if slices.ContainsFunc(checked[rule.Rule], same) {
						return // checked before, for another version or another field
					}
					checked[rule.Rule] = append(checked[rule.Rule], node)
					name := fmt.Sprintf("%s %s %s: %s", f.Plural, v.Name, path, rule.Rule)
					checkRule(t, compiler, name, path == "", node, rule)
				})
		}
	}
	for rule := range oneDirection {
		if len(checked[rule]) == 0 {
			t.Errorf("oneDirection: no CRD has the rule %s", rule)
		}
	}
	if rules < 300 {
		t.Errorf("only %d rules were found, want at least 300", rules)
	}
	t.Logf("%d rules, %d different ones", rules, len(checked))
}

func checkRule(t *testing.T, compiler *Compiler, name string, root bool, node *structural.Structural,
	rule apiextensionsv1.ValidationRule) {
	t.Helper()
	alone := bare(node)
	alone.XValidations = apiextensionsv1.ValidationRules{rule}
	fast, libraries := compiler.Compile(alone), cel.NewValidator(alone, root, math.MaxInt64)
	g := newGenerator(rule.Rule, node)
	accepted, rejected := 0, 0
	_, exempt := oneDirection[rule.Rule]
	for n := 0; n < minCases || n < maxCases && !exempt && (accepted == 0 || rejected == 0); n++ {
		v := g.value(node)
		errs, _ := libraries.Validate(t.Context(), nil, alone, v, nil, math.MaxInt64)
		switch ok := fast.Valid(v); {
		case ok && len(errs) > 0:
			t.Errorf("%s\nValid accepts %v, want it rejected: apiextensions reports %v", name, v, errs)
			return
		case ok:
			accepted++
		case violated(errs):
			rejected++
		}
	}
	switch {
	case exempt && rejected > 0:
		t.Errorf("%s\nis violated: remove it from oneDirection", name)
	case accepted == 0:
		t.Errorf("%s\nno value is accepted by both", name)
	case rejected == 0 && !exempt:
		t.Errorf("%s\nno value violates it", name)
	}
}

// violated reports whether a rule evaluated to false. It returns false if the evaluation failed.
func violated(errs field.ErrorList) bool {
	for _, e := range errs {
		if !strings.Contains(e.Detail, "rule evaluation error") && !strings.Contains(e.Detail, "no such key") {
			return true
		}
	}
	return false
}

func structuralSchema(t *testing.T, props *apiextensionsv1.JSONSchemaProps) *structural.Structural {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal,
		nil); err != nil {
		t.Fatal(err)
	}
	s, err := structural.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func walkRules(s *structural.Structural, path string,
	visit func(path string, node *structural.Structural, rule apiextensionsv1.ValidationRule)) {
	if s == nil {
		return
	}
	for _, rule := range s.XValidations {
		visit(path, s, rule)
	}
	for _, name := range sortedProperties(s) {
		p := s.Properties[name]
		walkRules(&p, strings.TrimPrefix(path+"."+name, "."), visit)
	}
	walkRules(s.Items, path+"[]", visit)
	if s.AdditionalProperties != nil {
		walkRules(s.AdditionalProperties.Structural, path+"{}", visit)
	}
}

// bare copies only the types of a schema, so that the result depends only on the rule under test.
func bare(s *structural.Structural) *structural.Structural {
	if s == nil {
		return nil
	}
	out := s.DeepCopy()
	strip(out)
	return out
}

func strip(s *structural.Structural) {
	if s == nil {
		return
	}
	s.XValidations = nil
	if v := s.ValueValidation; v != nil {
		s.ValueValidation = &structural.ValueValidation{Format: v.Format}
	}
	for name, p := range s.Properties {
		strip(&p)
		s.Properties[name] = p
	}
	strip(s.Items)
	if s.AdditionalProperties != nil {
		strip(s.AdditionalProperties.Structural)
	}
}
