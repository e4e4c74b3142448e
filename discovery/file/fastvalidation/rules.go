package fastvalidation

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

// Compiler compiles schemas with their CEL rules. Its CEL environment counts no costs, and has only
// the functions in the rules of our CRDs.
type Compiler struct{ env *cel.Env }

// NewCompiler makes a Compiler. It fails only if cel-go rejects the environment.
func NewCompiler() (*Compiler, error) {
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
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	return &Compiler{env}, nil
}

type rule struct {
	program cel.Program
	// escaped is the schema of the value, if the rule has escaped field names such as
	// __namespace__; otherwise nil.
	escaped *structural.Structural
}

var (
	wholeCompared = regexp.MustCompile(`(^|[^.\w])self\s*[!=]=|[!=]=\s*self($|[^.\w])`)
	escapePattern = regexp.MustCompile(`__[a-z]+__`)
	reservedWords = map[string]bool{"__namespace__": true, "__if__": true, "__for__": true, "__in__": true,
		"__import__": true, "__function__": true}
)

// compileRule compiles a CEL rule of schema s. It returns false for an unsupported rule. It returns
// a nil rule for a transition rule (oldSelf), which does not apply to new objects.
func (c *Compiler) compileRule(r apiextensionsv1.ValidationRule, s *structural.Structural) (*rule, bool) {
	if strings.Contains(r.Rule, "oldSelf") {
		return nil, r.OptionalOldSelf == nil || !*r.OptionalOldSelf
	}
	// CEL compares lists in order, but two sets are equal in any order.
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
	ast, issues := c.env.Compile(r.Rule)
	if issues.Err() != nil {
		return nil, false
	}
	program, err := c.env.Program(ast, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, false
	}
	out.program = program
	return out, true
}

type self struct{ value any }

func (s self) ResolveName(name string) (any, bool) { return s.value, name == "self" }

func (s self) Parent() cel.Activation { return nil }

func (r rule) holds(v any) bool {
	if r.escaped != nil {
		v = escapeFields(v, r.escaped)
	}
	out, _, err := r.program.Eval(self{v})
	return err == nil && out == types.True
}

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
