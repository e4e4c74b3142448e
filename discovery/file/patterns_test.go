package file

import (
	"testing"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Each pattern for which patterns.go has words must be in a CRD. If a release of the Gateway API
// changes a pattern, findings would show the regular expression.
func TestSchema_PatternsWithWordsAreInUse(t *testing.T) {
	used := map[string]bool{}
	var walk func(s *structural.Structural)
	walk = func(s *structural.Structural) {
		if s == nil {
			return
		}
		if s.ValueValidation != nil {
			used[s.ValueValidation.Pattern] = true
		}
		for _, p := range s.Properties {
			walk(&p)
		}
		walk(s.Items)
		if s.AdditionalProperties != nil {
			walk(s.AdditionalProperties.Structural)
		}
	}
	for _, k := range kinds() {
		s, err := newSchema(k)
		if err != nil {
			t.Fatal(err)
		}
		walk(s.shape)
	}
	for p := range patternWords {
		if !used[p] {
			t.Errorf("no schema has the pattern %s", p)
		}
	}
}
