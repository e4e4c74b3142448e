package limits

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/penstock-project/penstock/manifests"
)

// Rules implements the CEL rules of a schema. The keys are the rules' texts. Each function receives
// a pointer to the value that has the rule, and reports whether the rule holds.
type Rules map[string]func(value any) bool

type kind uint8

const (
	other kind = iota // not checked: a boolean, a fraction, or a type that encodes itself
	object
	array
	text
	integer
)

type node struct {
	kind             kind
	fields           []field
	rules            []rule
	items            *node
	unique           func(element reflect.Value) any // nil: elements may repeat
	most, least      *int64                          // maximum and minimum length
	maximum, minimum *float64
	pattern          *regexp.Regexp
	enum             map[string]bool
	choices          string // the enum, for messages
}

type field struct {
	name     string
	index    int
	required bool
	omits    func(reflect.Value) bool // reports whether omitempty or omitzero omits the value
	node     *node
}

type rule struct {
	holds   func(any) bool
	message string
}

// New compiles the schema at a path of a CRD's newest version, such as status.clusters.items. The
// parameter `zero` is a zero value of the Go type.
func New(group, plural, path string, zero any, rules Rules) (*Schema, error) {
	crd, err := manifests.CRD(group, plural)
	if err != nil {
		return nil, err
	}
	props := crd.Spec.Versions[len(crd.Spec.Versions)-1].Schema.OpenAPIV3Schema
	for step := range strings.SplitSeq(path, ".") {
		next, ok := props.Properties[step]
		if step == "items" && props.Items != nil {
			next, ok = *props.Items.Schema, true
		}
		if !ok {
			return nil, fmt.Errorf("CRD %s has no %s", crd.Name, path)
		}
		props = &next
	}
	c := compiler{rules}
	root, err := c.node(reflect.TypeOf(zero), props)
	if err != nil {
		return nil, fmt.Errorf("CRD %s, %s: %w", crd.Name, path, err)
	}
	return &Schema{root}, nil
}

type compiler struct{ rules Rules }

func (c compiler) node(t reflect.Type, s *apiextensionsv1.JSONSchemaProps) (n *node, err error) {
	if err := known(s); err != nil {
		return nil, err
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	n = &node{}
	switch {
	case s.Type == "array" && t.Kind() == reflect.Slice: // some slices encode themselves
		err = c.array(n, t, s)
	case encodesItself(t), s.Type == "boolean", s.Type == "number":
	case s.Type == "object" && t.Kind() == reflect.Struct:
		err = c.object(n, t, s)
	case s.Type == "string" && t.Kind() == reflect.String:
		err = c.text(n, s)
	case s.Type == "integer" && t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64:
		n.kind, n.maximum, n.minimum = integer, s.Maximum, s.Minimum
	default:
		err = fmt.Errorf("type %s has values of %v", s.Type, t)
	}
	return n, err
}

func encodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

// known returns an error for a schema with a keyword that is not checked.
func known(s *apiextensionsv1.JSONSchemaProps) error {
	plain := *s
	plain.Description, plain.Type, plain.Format, plain.Default, plain.Title, plain.Example = "", "", "", nil, "", nil
	plain.Properties, plain.Required, plain.Items, plain.XValidations = nil, nil, nil, nil
	plain.MaxLength, plain.MinLength, plain.Pattern, plain.Enum = nil, nil, "", nil
	plain.Maximum, plain.Minimum, plain.MaxItems, plain.MinItems = nil, nil, nil, nil
	plain.XListType, plain.XListMapKeys, plain.XMapType = nil, nil, nil
	if !reflect.DeepEqual(plain, apiextensionsv1.JSONSchemaProps{}) {
		return fmt.Errorf("a keyword of %+v is unknown", plain)
	}
	formats := []string{"", "int32", "int64", "date-time"} // the Go types ensure these formats
	if !slices.Contains(formats, s.Format) {
		return fmt.Errorf("format %s is unknown", s.Format)
	}
	return nil
}

func (c compiler) object(n *node, t reflect.Type, s *apiextensionsv1.JSONSchemaProps) error {
	n.kind = object
	found := map[string]bool{}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		props, ok := s.Properties[name]
		if !ok {
			return fmt.Errorf("field %s of %v is in no schema", t.Field(i).Name, t)
		}
		found[name] = true
		child, err := c.node(t.Field(i).Type, &props)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		n.fields = append(n.fields, field{name, i, slices.Contains(s.Required, name), omits(options), child})
	}
	for name := range s.Properties {
		if !found[name] {
			return fmt.Errorf("%v has no field %s", t, name)
		}
	}
	for _, r := range s.XValidations {
		holds := c.rules[r.Rule]
		if holds == nil {
			return fmt.Errorf("the rule %q is unknown", r.Rule)
		}
		n.rules = append(n.rules, rule{holds, r.Message})
	}
	return nil
}

func omits(options string) func(reflect.Value) bool {
	never := func(reflect.Value) bool { return false }
	switch {
	case strings.Contains(options, "omitzero"):
		return reflect.Value.IsZero
	case strings.Contains(options, "omitempty"):
		return func(v reflect.Value) bool {
			switch v.Kind() {
			case reflect.Slice, reflect.Map, reflect.String:
				return v.Len() == 0
			case reflect.Struct:
				return false
			}
			return v.IsZero()
		}
	}
	return never
}

// A null counts as absent.
func (f *field) omitted(v reflect.Value) bool {
	return f.omits(v) || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice) && v.IsNil()
}

func (c compiler) array(n *node, t reflect.Type, s *apiextensionsv1.JSONSchemaProps) (err error) {
	n.kind, n.most, n.least = array, s.MaxItems, s.MinItems
	if n.items, err = c.node(t.Elem(), s.Items.Schema); err != nil || s.XListType == nil {
		return err
	}
	switch *s.XListType {
	case "set":
		n.unique = func(v reflect.Value) any { return v.Interface() }
	case "map":
		if len(s.XListMapKeys) != 1 || t.Elem().Kind() != reflect.Struct {
			return fmt.Errorf("a list has the keys %v", s.XListMapKeys)
		}
		i := slices.IndexFunc(n.items.fields, func(f field) bool { return f.name == s.XListMapKeys[0] })
		n.unique = func(v reflect.Value) any { return v.Field(n.items.fields[i].index).Interface() }
	}
	return nil
}

func (c compiler) text(n *node, s *apiextensionsv1.JSONSchemaProps) (err error) {
	n.kind, n.most, n.least = text, s.MaxLength, s.MinLength
	if s.Pattern != "" {
		n.pattern, err = regexp.Compile(s.Pattern)
	}
	var choices []string
	for _, e := range s.Enum {
		var one string
		if err := json.Unmarshal(e.Raw, &one); err != nil {
			return fmt.Errorf("a choice that is no text: %w", err)
		}
		choices = append(choices, one)
	}
	if len(choices) > 0 {
		n.enum, n.choices = map[string]bool{}, strings.Join(choices, ", ")
		for _, one := range choices {
			n.enum[one] = true
		}
	}
	return err
}
