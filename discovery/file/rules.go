package file

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiserver/pkg/cel/library"
)

// ruleEnv compiles CEL rules for quick: over plain values, without counting costs, and with those of the API server's
// functions that rules in use need and that come without cost trackers. A rule that needs another one is not understood.
type ruleEnv struct{ env *cel.Env }

func newRuleEnv() (*ruleEnv, error) {
	env, err := cel.NewEnv(
		cel.Variable("self", cel.DynType),
		cel.HomogeneousAggregateLiterals(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		ext.Strings(ext.StringsVersion(2)),
		library.Regex(),
		library.Lists(),
		library.IP(),
		library.Quantity(),
	)
	if err != nil {
		return nil, fmt.Errorf("environment of CEL rules: %w", err)
	}
	return &ruleEnv{env}, nil
}

// rule is one compiled CEL rule.
type rule struct {
	program cel.Program
	// escaped: the rule names a field by an escape, such as __namespace__, and gets its value with fields named so.
	escaped *structural.Structural
}

var (
	// wholeCompared finds rules that compare all of self.
	wholeCompared = regexp.MustCompile(`(^|[^.\w])self\s*[!=]=|[!=]=\s*self($|[^.\w])`)
	// escapePattern finds escapes in rules; those of reserved words are understood.
	escapePattern = regexp.MustCompile(`__[a-z]+__`)
	reservedWords = map[string]bool{"__namespace__": true, "__if__": true, "__for__": true, "__in__": true, "__import__": true, "__function__": true}
)

// compile returns nil for a rule that says nothing about a new object, and false for one that it does not understand.
func (e *ruleEnv) compile(r apiextensionsv1.ValidationRule, s *structural.Structural) (*rule, bool) {
	if strings.Contains(r.Rule, "oldSelf") {
		return nil, r.OptionalOldSelf == nil || !*r.OptionalOldSelf
	}
	// Two sets are equal in any order, which plain values do not know.
	if isSet := s.XListType != nil && *s.XListType == "set"; isSet && wholeCompared.MatchString(r.Rule) {
		return nil, false
	}
	out := &rule{}
	for _, esc := range escapePattern.FindAllString(r.Rule, -1) {
		if !reservedWords[esc] {
			return nil, false
		}
		out.escaped = s
	}
	ast, issues := e.env.Compile(r.Rule)
	if issues.Err() != nil {
		return nil, false
	}
	program, err := e.env.Program(ast, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, false
	}
	out.program = program
	return out, true
}

// self is the one variable of a rule.
type self struct{ value any }

// ResolveName implements cel.Activation.
func (s self) ResolveName(name string) (any, bool) { return s.value, name == "self" }

// Parent implements cel.Activation.
func (s self) Parent() cel.Activation { return nil }

func (r rule) holds(v any) bool {
	if r.escaped != nil {
		v = escapeFields(v, r.escaped)
	}
	out, _, err := r.program.Eval(self{v})
	return err == nil && out == types.True
}

// escapeFields copies a value with its fields named as rules name them.
func escapeFields(v any, s *structural.Structural) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			if p, ok := s.Properties[key]; ok {
				if esc := "__" + key + "__"; reservedWords[esc] {
					key = esc
				}
				out[key] = escapeFields(value, &p)
			} else {
				out[key] = value
			}
		}
		return out
	case []any:
		if s.Items == nil {
			return v
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = escapeFields(item, s.Items)
		}
		return out
	}
	return v
}
