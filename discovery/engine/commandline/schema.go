package commandline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Schema is the compiled valuesSchema of a version of an engine.
type Schema struct {
	compiled *jsonschema.Schema
	names    map[string]string // normalized name -> declared name of an argument
	defaults map[string]any    // default values, by declared name of the argument
}

// schemaURL is the base URL of a schema. Its scheme has no loader, so a relative reference to
// another document fails.
const schemaURL = "engine:///valuesSchema"

const maxSchema = 1 << 20

// Compile compiles the JSON Schema of an engine's arguments. It reads no file and makes no request.
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("%d bytes are more than %d", len(raw), maxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	top, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("it is no object")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	s := &Schema{names: map[string]string{}, defaults: map[string]any{}}
	if s.compiled, err = c.Compile(schemaURL); err != nil {
		return nil, short(err)
	}
	properties, _ := top["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !argumentName.MatchString(name) {
			return nil, fmt.Errorf("property %q is no name of an argument", name)
		}
		if other, taken := s.names[Normalized(name)]; taken {
			return nil, fmt.Errorf("properties %s and %s are the same argument", other, name)
		}
		s.names[Normalized(name)] = name
		if property, ok := properties[name].(map[string]any); ok && property["default"] != nil {
			s.defaults[name] = property["default"]
		}
	}
	return s, nil
}

func short(err error) error {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return fmt.Errorf("it refers to %s: references to files and URLs are not followed", load.URL)
	}
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var cause *jsonschema.ValidationError
		if errors.As(invalid.Err, &cause) {
			for len(cause.Causes) > 0 {
				cause = cause.Causes[0]
			}
			if unit := cause.BasicOutput(); unit.Error != nil {
				return fmt.Errorf("at %s: %s", unit.InstanceLocation, unit.Error)
			}
		}
	}
	return err
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) { return nil, errors.New("is not read: " + url) }

// validate returns a finding for each rule of the schema that a value violates. written maps the
// declared name of a variable to the name that the user wrote.
func (s *Schema) validate(values map[string]any, written map[string]string) (out []report.Finding) {
	err := s.compiled.Validate(values)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	for _, unit := range invalid.BasicOutput().Errors {
		if unit.Error == nil {
			continue
		}
		field := fieldOf(unit.InstanceLocation, written)
		switch k := unit.Error.Kind.(type) {
		case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
			continue
		case *kind.AdditionalProperties:
			for _, name := range k.Properties {
				if field != variables {
					out = append(out, mistake(field+"."+name, "is not a declared property", "remove it"))
					continue
				}
				out = append(out, mistake(field+"."+orSame(written, name), "is no argument of this engine, whose "+
					"schema forbids others", near(name, s.declared())))
			}
		case *kind.Required:
			out = append(out, mistake(field,
				"lacks "+strings.Join(k.Missing, ", ")+", which the engine's schema requires", "add it"))
		case *kind.Pattern: // the finding omits the value, which may be a credential
			out = append(out, mistake(field, "does not match the pattern "+k.Want, "write a value that matches"))
		case *kind.Format:
			out = append(out, mistake(field, "is no valid "+k.Want, "write a valid "+k.Want))
		default:
			rule := strings.Join(unit.Error.Kind.KeywordPath(), ".")
			out = append(out, mistake(field, unit.Error.String(),
				fmt.Sprintf("correct the value: the engine's schema has the rule %q", rule)))
		}
	}
	return out
}

func (s *Schema) declared() []string { return slices.Sorted(maps.Values(s.names)) }

// fieldOf converts a JSON pointer within spec.variables to a field of the ModelDeployment.
func fieldOf(pointer string, written map[string]string) string {
	field := variables
	for i, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch {
		case part == "":
		case i == 0:
			field += "." + orSame(written, part)
		case strings.Trim(part, "0123456789") == "":
			field += "[" + part + "]"
		default:
			field += "." + part
		}
	}
	return field
}

func orSame(written map[string]string, name string) string {
	if w, ok := written[name]; ok {
		return w
	}
	return name
}

// text returns the command line's text for the value of a variable. flag means that the argument
// has no value (true). none means that the argument is omitted (false).
func text(v any) (out string, flag, none bool, err error) {
	switch v := v.(type) {
	case nil:
		return "", false, false, errors.New("null is no value")
	case bool:
		return "", v, !v, nil
	case json.Number:
		return v.String(), false, false, nil
	case string:
		return v, false, false, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", false, false, err
	}
	return strings.TrimSuffix(b.String(), "\n"), false, false, nil
}
