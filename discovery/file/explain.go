package file

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// mistakes converts validation errors to mistakes for users. If a field has a wrong type, its other
// errors are omitted, because they follow from the type.
func (s *schema) mistakes(unknown []string, errs field.ErrorList) []mistake {
	var out, wrongType []mistake
	for _, e := range errs {
		if e.Type == field.ErrorTypeTypeInvalid {
			wrongType = append(wrongType, s.explain(e))
		}
	}
	add := func(m mistake) {
		if !slices.ContainsFunc(wrongType, func(w mistake) bool {
			return w.field == m.field || strings.HasPrefix(m.field, w.field+".") ||
				m.field == "" && strings.Contains(m.problem, w.field) // an error of anyOf has no field
		}) {
			out = append(out, m)
		}
	}
	for _, path := range unknown {
		add(s.unknownField(path))
	}
	for _, e := range errs {
		add(s.explain(e))
	}
	return append(out, slices.Compact(wrongType)...)
}

func (s *schema) explain(e *field.Error) mistake {
	path := strings.TrimPrefix(e.Field, "<nil>")
	path = strings.Trim(path, ".")
	m := mistake{severity: report.Error, field: path}
	node := s.at(path)
	switch e.Type {
	case field.ErrorTypeRequired:
		m.problem, m.fix = "is missing", "write "+kindOfValue(node)
	case field.ErrorTypeNotSupported:
		m.problem, m.fix = enumWords(node, e)
	case field.ErrorTypeTypeInvalid:
		m.problem, m.fix = typeWords(node, e)
	case field.ErrorTypeDuplicate:
		m.problem, m.fix = "is a duplicate: "+keyWords(e.BadValue), "remove it, or give it another value"
	case field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeInvalid:
		m.problem, m.fix = limitWords(node, e)
	default:
		m.problem = plain(e.Detail)
	}
	if !s.quotable(path) {
		m.conceal(e.BadValue)
	}
	return m
}

func (m *mistake) conceal(value any) {
	text := fmt.Sprint(value)
	if text == "" || valueWords(value) != quote(text) && valueWords(value) != text {
		return
	}
	for _, form := range []string{quote(text), text} {
		m.problem = strings.ReplaceAll(m.problem, form, "a value that is not shown")
		m.fix = strings.ReplaceAll(m.fix, form, "it")
	}
}

// numberFormat matches the type in the library's error about a fraction in place of an integer.
var numberFormat = regexp.MustCompile(`^(?:float|u?int)(?:32|64)$`)

func typeWords(node *structural.Structural, e *field.Error) (problem, fix string) {
	got := valueWords(e.BadValue)
	if format, ok := e.BadValue.(string); ok && numberFormat.MatchString(format) {
		got = "a number"
	}
	problem, fix = fmt.Sprintf("must be %s, is %s", typeName(node), got), "write "+kindOfValue(node)
	// Labels and annotations have no schema, so node is nil.
	if strings.HasPrefix(e.Field, "metadata.annotations.") || strings.HasPrefix(e.Field, "metadata.labels.") {
		return "must be a string, is " + got, "put the value in quotes"
	}
	if node == nil {
		return problem, fix
	}
	scalar := got != "a mapping" && got != "a list"
	v := node.ValueValidation
	switch {
	case v != nil && v.Format == "byte" && scalar:
		return "is not base64: " + got, "write the value's base64, or plain text in stringData where the kind has it"
	case v != nil && v.Format == "date-time" && scalar:
		return "is not a time: " + got, "write it in the form 2026-01-31T12:00:00Z"
	case (node.Type == "string" || node.XIntOrString) && scalar:
		return problem, "put the value in quotes"
	case node.Type == "array" && got == "a mapping":
		return problem, "begin each item with a dash"
	}
	return problem, fix
}

func keyWords(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return valueWords(v)
	}
	var parts []string
	for _, k := range sortedKeys(m) {
		parts = append(parts, k+" "+valueWords(m[k]))
	}
	return strings.Join(parts, ", ")
}

func limitWords(node *structural.Structural, e *field.Error) (problem, fix string) {
	// Messages of CEL rules are kept: the API's authors wrote them for users.
	problem = plain(e.Detail)
	if node == nil || node.ValueValidation == nil {
		return problem, ""
	}
	v := node.ValueValidation
	switch bad := e.BadValue.(type) {
	case int64, float64, int:
		n, ok := number(bad)
		if !ok {
			break
		}
		if v.Minimum != nil && n < *v.Minimum {
			return fmt.Sprintf("must be at least %s, is %s", num(*v.Minimum), num(n)), "write " + kindOfValue(node)
		}
		if v.Maximum != nil && n > *v.Maximum {
			return fmt.Sprintf("must be at most %s, is %s", num(*v.Maximum), num(n)), "write " + kindOfValue(node)
		}
	case string:
		switch {
		case v.MinLength != nil && int64(len([]rune(bad))) < *v.MinLength && bad == "":
			return "is empty", "write " + kindOfValue(node)
		case v.MaxLength != nil && int64(len([]rune(bad))) > *v.MaxLength:
			return fmt.Sprintf("is longer than %d characters", *v.MaxLength), "shorten it"
		case v.Pattern != "" && strings.Contains(e.Detail, "should match"):
			want, known := patternWords[v.Pattern]
			if !known {
				want = "a value that matches " + v.Pattern
			}
			return "has an invalid format: " + quote(bad), "write " + want
		}
	}
	switch e.Type {
	case field.ErrorTypeTooMany:
		if v.MaxItems != nil {
			return fmt.Sprintf("has more than %d items", *v.MaxItems), "spread them over several objects or rules"
		}
	case field.ErrorTypeTooLong:
		if v.MaxLength != nil {
			return fmt.Sprintf("is longer than %d characters", *v.MaxLength), "shorten it"
		}
	}
	if v.MinItems != nil && strings.Contains(e.Detail, "at least") {
		return fmt.Sprintf("must have at least %d items", *v.MinItems), "list them, or leave the field out"
	}
	return problem, ""
}

func enumWords(node *structural.Structural, e *field.Error) (problem, fix string) {
	bad := fmt.Sprint(e.BadValue)
	allowed := enumOf(node)
	if len(allowed) == 0 {
		return plain(e.Detail), ""
	}
	return fmt.Sprintf("must be one of %s, is %s", strings.Join(allowed, ", "), valueWords(e.BadValue)),
		suggest(bad, allowed)
}

func enumOf(node *structural.Structural) []string {
	if node == nil || node.ValueValidation == nil {
		return nil
	}
	var out []string
	for _, v := range node.ValueValidation.Enum {
		if s := fmt.Sprint(v.Object); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func plain(detail string) string {
	if i := strings.Index(detail, " in body "); i >= 0 {
		detail = detail[i+len(" in body "):]
	}
	return strings.TrimSpace(detail)
}

func kindOfValue(node *structural.Structural) string {
	if node == nil {
		return "a value"
	}
	if allowed := enumOf(node); len(allowed) > 0 {
		return oneOfWords(allowed)
	}
	v := node.ValueValidation
	switch node.Type {
	case "integer", "number":
		noun := "a number"
		if node.Type == "integer" {
			noun = "an integer"
		}
		if v != nil && v.Minimum != nil && v.Maximum != nil && *v.Maximum < math.MaxInt32 {
			return fmt.Sprintf("%s from %s to %s", noun, num(*v.Minimum), num(*v.Maximum))
		}
		if v != nil && v.Minimum != nil && *v.Minimum > math.MinInt32 {
			return fmt.Sprintf("%s of at least %s", noun, num(*v.Minimum))
		}
		return noun
	}
	return typeName(node)
}

func typeName(node *structural.Structural) string {
	if node == nil {
		return "of another type"
	}
	if node.XIntOrString {
		return "an integer or a string"
	}
	switch node.Type {
	case "object":
		if len(node.Properties) > 0 {
			return "a mapping with the fields " + fieldNames(node)
		}
		return "a mapping"
	case "array":
		return "a list"
	case "string":
		return "a string"
	case "boolean":
		return "true or false"
	case "integer":
		return "an integer"
	case "number":
		return "a number"
	}
	return "a value"
}

func fieldNames(node *structural.Structural) string {
	names := slices.Sorted(maps.Keys(node.Properties))
	if v := node.ValueValidation; v != nil && len(v.Required) > 0 {
		names = v.Required
	}
	if len(names) > 6 {
		names = append(names[:6:6], "...")
	}
	return strings.Join(names, ", ")
}

func valueWords(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		if slices.Contains([]string{"object", "array", "boolean", "integer", "number", "string"}, v) {
			// For a value of the wrong type, the library reports the name of the value's type.
			return map[string]string{"object": "a mapping", "array": "a list", "boolean": "true or false",
				"integer": "a number", "number": "a number", "string": "a string"}[v]
		}
		return quote(v)
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	}
	return fmt.Sprint(v)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func num(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
