package file

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"unicode/utf8"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// quick is a schema compiled for one question: is this value right beyond doubt? The libraries of the API server answer
// what is wrong with a value, and take more than a millisecond for a route; most values are right, and with thousands of
// them a cold start is made of that time. A no from here means no more than to ask the libraries: whatever quick does not
// understand, it denies. That a yes is also theirs is kept by TestNothingWrongIsTakenForRight.
type quick struct {
	unsure      bool // has something that is not understood here
	anything    bool // takes fields that the schema does not name
	intOrString bool
	nullable    bool
	typ         string
	properties  map[string]*quick
	required    []string
	items       *quick
	values      *quick // of a mapping with free keys
	limits      *structural.ValueValidation
	pattern     *regexp.Regexp
	listKeys    []string // of a list that is a map; a set has the one key ""
	rules       []rule
}

func newQuick(s *structural.Structural, env *ruleEnv) *quick {
	if s == nil {
		return nil
	}
	q := &quick{typ: s.Type, nullable: s.Nullable, intOrString: s.XIntOrString, anything: s.XPreserveUnknownFields}
	q.unsure = s.XEmbeddedResource || s.Type == "" && !s.XIntOrString && !s.XPreserveUnknownFields
	if v := s.ValueValidation; v != nil && !reflect.DeepEqual(*v, structural.ValueValidation{}) {
		q.limits = v
		q.required = v.Required
		q.unsure = q.unsure || len(v.AllOf)+len(v.AnyOf)+len(v.OneOf) > 0 && !s.XIntOrString || v.Not != nil || v.UniqueItems || v.MultipleOf != nil || v.ExclusiveMinimum || v.ExclusiveMaximum
		if v.Pattern != "" {
			var err error
			q.pattern, err = regexp.Compile(v.Pattern)
			q.unsure = q.unsure || err != nil
		}
		switch v.Format {
		case "", "int32", "int64", "byte":
		default:
			q.unsure = true
		}
	}
	if len(s.Properties) > 0 {
		q.properties = make(map[string]*quick, len(s.Properties))
		for name, p := range s.Properties {
			q.properties[name] = newQuick(&p, env)
		}
	}
	q.items = newQuick(s.Items, env)
	if a := s.AdditionalProperties; a != nil {
		q.values = newQuick(a.Structural, env)
		q.unsure = q.unsure || a.Structural == nil
	}
	if s.XListType != nil {
		switch *s.XListType {
		case "set":
			q.listKeys = []string{""}
		case "map":
			q.listKeys = s.XListMapKeys
		}
	}
	for _, r := range s.XValidations {
		compiled, ok := env.compile(r, s)
		q.unsure = q.unsure || !ok
		if compiled != nil {
			q.rules = append(q.rules, *compiled)
		}
	}
	return q
}

// right says that a value is right beyond doubt.
func (q *quick) right(v any) bool {
	if q == nil || q.unsure {
		return false
	}
	if v == nil {
		return q.nullable
	}
	if q.anything {
		return len(q.properties) == 0 && len(q.rules) == 0 && q.limits == nil && q.typ != "array"
	}
	if !q.shape(v) {
		return false
	}
	for _, r := range q.rules {
		if !r.holds(v) {
			return false
		}
	}
	return true
}

func (q *quick) shape(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return q.typ == "object" && q.mapping(v)
	case []any:
		return q.typ == "array" && q.list(v)
	case string:
		return (q.typ == "string" || q.intOrString) && q.text(v)
	case bool:
		return q.typ == "boolean" && (q.limits == nil || len(q.limits.Enum) == 0)
	case int64:
		return (q.typ == "integer" || q.typ == "number" || q.intOrString) && q.number(float64(v))
	case float64:
		return q.typ == "number" && q.number(v)
	}
	return false
}

func (q *quick) mapping(m map[string]any) bool {
	for _, key := range q.required {
		if _, ok := m[key]; !ok {
			return false
		}
	}
	if l := q.limits; l != nil {
		n := int64(len(m))
		if l.MinProperties != nil && n < *l.MinProperties || l.MaxProperties != nil && n > *l.MaxProperties || len(l.Enum) > 0 {
			return false
		}
	}
	for key, value := range m {
		p := q.properties[key]
		if p == nil {
			p = q.values
		}
		if !p.right(value) {
			return false
		}
	}
	return true
}

func (q *quick) list(list []any) bool {
	if l := q.limits; l != nil {
		n := int64(len(list))
		if l.MinItems != nil && n < *l.MinItems || l.MaxItems != nil && n > *l.MaxItems || len(l.Enum) > 0 {
			return false
		}
	}
	for _, item := range list {
		if !q.items.right(item) {
			return false
		}
	}
	return len(q.listKeys) == 0 || len(list) < 2 || distinct(list, q.listKeys)
}

// distinct says whether no two items of a list have the same keys.
func distinct(list []any, keys []string) bool {
	seen := make(map[string]bool, len(list))
	for _, item := range list {
		var id []byte
		for _, key := range keys {
			value := item
			if m, ok := item.(map[string]any); ok && key != "" {
				value = m[key]
			}
			switch value.(type) {
			case nil, string, int64, bool:
				id = fmt.Appendf(id, "%T %q ", value, fmt.Sprint(value))
			default:
				return false
			}
		}
		if seen[string(id)] {
			return false
		}
		seen[string(id)] = true
	}
	return true
}

// base64Pattern is base64 in one line, as the API server wants it.
var base64Pattern = regexp.MustCompile(`^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`)

func (q *quick) text(s string) bool {
	l := q.limits
	if l == nil {
		return true
	}
	if l.MinLength != nil || l.MaxLength != nil {
		n := int64(utf8.RuneCountInString(s))
		if l.MinLength != nil && n < *l.MinLength || l.MaxLength != nil && n > *l.MaxLength {
			return false
		}
	}
	if l.Format == "byte" && (s == "" || !base64Pattern.MatchString(s)) {
		return false
	}
	if q.pattern != nil && !q.pattern.MatchString(s) {
		return false
	}
	return len(l.Enum) == 0 || slices.ContainsFunc(l.Enum, func(e structural.JSON) bool { return e.Object == s })
}

func (q *quick) number(f float64) bool {
	l := q.limits
	if l == nil {
		return true
	}
	if l.Format == "int32" && (f < math.MinInt32 || f > math.MaxInt32) {
		return false
	}
	if len(l.Enum) > 0 && !slices.ContainsFunc(l.Enum, func(e structural.JSON) bool { n, ok := number(e.Object); return ok && n == f }) {
		return false
	}
	return (l.Minimum == nil || f >= *l.Minimum) && (l.Maximum == nil || f <= *l.Maximum)
}
