package fastvalidation

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Schema is a compiled structural schema with its CEL rules.
type Schema struct {
	unsupported   bool
	unknownFields bool // fields that are not in the schema are kept
	intOrString   bool
	typ           string
	properties    map[string]*Schema
	required      []string
	items         *Schema
	values        *Schema
	limits        *structural.ValueValidation
	pattern       *regexp.Regexp
	listKeys      []string // keys of a list with x-kubernetes-list-type map; one key "" for a set
	rules         []rule
}

// Compile compiles a structural schema. If the schema is unsupported, Valid returns false.
func (c *Compiler) Compile(s *structural.Structural) *Schema {
	if s == nil {
		return nil
	}
	out := &Schema{typ: s.Type, intOrString: s.XIntOrString, unknownFields: s.XPreserveUnknownFields}
	out.unsupported = s.XEmbeddedResource || s.Type == "" && !s.XIntOrString && !s.XPreserveUnknownFields
	if v := s.ValueValidation; v != nil && !reflect.DeepEqual(*v, structural.ValueValidation{}) {
		out.limits = v
		out.required = v.Required
		out.unsupported = out.unsupported || len(v.AllOf)+len(v.AnyOf)+len(v.OneOf) > 0 && !s.XIntOrString ||
			v.Not != nil || v.UniqueItems || v.MultipleOf != nil || v.ExclusiveMinimum || v.ExclusiveMaximum
		if v.Pattern != "" {
			var err error
			out.pattern, err = regexp.Compile(v.Pattern)
			out.unsupported = out.unsupported || err != nil
		}
		switch v.Format {
		case "", "int32", "int64", "byte", "date-time":
		default:
			out.unsupported = true
		}
	}
	if len(s.Properties) > 0 {
		out.properties = make(map[string]*Schema, len(s.Properties))
		for name, p := range s.Properties {
			out.properties[name] = c.Compile(&p)
		}
	}
	out.items = c.Compile(s.Items)
	if a := s.AdditionalProperties; a != nil {
		out.values = c.Compile(a.Structural)
		out.unsupported = out.unsupported || a.Structural == nil
	}
	if s.XListType != nil {
		switch *s.XListType {
		case "set":
			out.listKeys = []string{""}
		case "map":
			out.listKeys = s.XListMapKeys
		}
	}
	for _, r := range s.XValidations {
		compiled, ok := c.compileRule(r, s)
		out.unsupported = out.unsupported || !ok
		if compiled != nil {
			out.rules = append(out.rules, *compiled)
		}
	}
	return out
}

// Valid returns true if v is certainly valid. It returns false if v is invalid, or if the schema or
// v is unsupported. v must be decoded as by encoding/json, but with int64 for whole numbers.
func (sc *Schema) Valid(v any) bool {
	if sc == nil || sc.unsupported {
		return false
	}
	if v == nil {
		return false // CEL has special rules for null, so the libraries decide
	}
	if sc.unknownFields {
		_, object := v.(map[string]any)
		return len(sc.properties) == 0 && len(sc.rules) == 0 && sc.limits == nil &&
			(sc.typ == "" || sc.typ == "object" && object)
	}
	if !sc.validShape(v) {
		return false
	}
	for _, r := range sc.rules {
		if !r.holds(v) {
			return false
		}
	}
	return true
}

func (sc *Schema) validShape(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return sc.typ == "object" && sc.validObject(v)
	case []any:
		return sc.typ == "array" && sc.validList(v)
	case string:
		return (sc.typ == "string" || sc.intOrString) && sc.validString(v)
	case bool:
		return sc.typ == "boolean" && (sc.limits == nil || len(sc.limits.Enum) == 0)
	case int64:
		return (sc.typ == "integer" || sc.typ == "number" || sc.intOrString) && sc.validNumber(float64(v))
	case float64:
		return sc.typ == "number" && sc.validNumber(v)
	}
	return false
}

func (sc *Schema) validObject(m map[string]any) bool {
	for _, key := range sc.required {
		if _, ok := m[key]; !ok {
			return false
		}
	}
	if l := sc.limits; l != nil {
		n := int64(len(m))
		if l.MinProperties != nil && n < *l.MinProperties || l.MaxProperties != nil && n > *l.MaxProperties ||
			len(l.Enum) > 0 {
			return false
		}
	}
	for key, value := range m {
		p := sc.properties[key]
		if p == nil {
			p = sc.values
		}
		if !p.Valid(value) {
			return false
		}
	}
	return true
}

func (sc *Schema) validList(list []any) bool {
	if l := sc.limits; l != nil {
		n := int64(len(list))
		if l.MinItems != nil && n < *l.MinItems || l.MaxItems != nil && n > *l.MaxItems || len(l.Enum) > 0 {
			return false
		}
	}
	for _, item := range list {
		if !sc.items.Valid(item) {
			return false
		}
	}
	return len(sc.listKeys) == 0 || len(list) < 2 || distinct(list, sc.listKeys)
}

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
				id = fmt.Appendf(id, "%T %sc ", value, fmt.Sprint(value))
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

// For format byte, the API server accepts only standard base64 on one line.
var base64Pattern = regexp.MustCompile(`^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`)

func (sc *Schema) validString(s string) bool {
	l := sc.limits
	if l == nil {
		return true
	}
	if l.MinLength != nil || l.MaxLength != nil {
		n := int64(utf8.RuneCountInString(s))
		if l.MinLength != nil && n < *l.MinLength || l.MaxLength != nil && n > *l.MaxLength {
			return false
		}
	}
	if l.Format == "byte" && (s == "" || !base64Pattern.MatchString(s)) || l.Format == "date-time" && !instant(s) {
		return false
	}
	if sc.pattern != nil && !sc.pattern.MatchString(s) {
		return false
	}
	return len(l.Enum) == 0 || slices.ContainsFunc(l.Enum, func(e structural.JSON) bool { return e.Object == s })
}

// instant reports whether s is a time in the form that an API server writes. The libraries check
// other forms of RFC 3339.
func instant(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil && len(s) == len("2006-01-02T15:04:05Z")
}

func (sc *Schema) validNumber(f float64) bool {
	l := sc.limits
	if l == nil {
		return true
	}
	if l.Format == "int32" && (f < math.MinInt32 || f > math.MaxInt32) {
		return false
	}
	if len(l.Enum) > 0 && !slices.ContainsFunc(l.Enum,
		func(e structural.JSON) bool { n, ok := number(e.Object); return ok && n == f }) {
		return false
	}
	return (l.Minimum == nil || f >= *l.Minimum) && (l.Maximum == nil || f <= *l.Maximum)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
