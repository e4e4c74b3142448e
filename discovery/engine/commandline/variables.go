package commandline

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// variables is the field of a ModelDeployment that has the variables.
const variables = "spec.variables"

var argumentName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,127}$`)

// Normalized returns an argument's name with - in place of _.
func Normalized(name string) string { return strings.ReplaceAll(name, "_", "-") }

// Reserved returns the normalized names, sorted, of the arguments that a template sets. Variables
// cannot set these arguments.
func Reserved(p *v1alpha1.ProcessTemplate) []string {
	names := map[string]bool{}
	add := func(args []string) {
		for _, arg := range args {
			if name, ok := strings.CutPrefix(arg, "--"); ok {
				name, _, _ = strings.Cut(name, "=")
				names[Normalized(name)] = true
			}
		}
	}
	add(p.Args)
	for _, args := range p.Tasks {
		add(args)
	}
	return slices.Sorted(maps.Keys(names))
}

// Arguments converts variables to arguments, sorted by name. It adds the defaults of the schema s,
// which may be nil. If a finding is an error, it returns no arguments.
func Arguments(vars map[string]apiextensionsv1.JSON, s *Schema, reserved []string) ([]string, []report.Finding) {
	if s == nil {
		s = &Schema{}
	}
	values, written := map[string]any{}, map[string]string{}
	var found []report.Finding
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		field := variables + "." + name
		declared, known := s.names[Normalized(name)]
		if !known {
			declared = name
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(vars[name].Raw))
		switch other, taken := sameName(written, declared); {
		case err != nil:
			found = append(found, mistake(field, "is no JSON value", "write a text, number, list or object"))
			continue
		case !argumentName.MatchString(name):
			found = append(found, mistake(field, "is no name of an argument",
				"write letters, digits, - and _, without leading dashes"))
			continue
		case taken:
			found = append(found, mistake(field, "is the same argument as "+other, "remove one of them"))
			continue
		}
		if owner := owned(Normalized(name), reserved, known); owner != "" {
			found = append(found, mistake(field, "the engine's template sets --"+owner, "remove the variable"))
			continue
		}
		values[declared], written[declared] = value, name
		if !known && !s.closed() {
			w := mistake(field, "is no argument that the engine's schema declares: it is passed as it is",
				near(name, s.declared()))
			if w.Severity = report.Warning; report.Nearest(name, s.declared()) == "" {
				w.Fix = "check it in the engine's own list of arguments"
			}
			found = append(found, w)
		}
	}
	for name, value := range s.defaults {
		if _, set := values[name]; !set && owned(Normalized(name), reserved, true) == "" {
			values[name] = value
		}
	}
	if s.compiled != nil {
		found = append(found, s.validate(values, written)...)
	}
	args, more := arguments(values, written)
	found = append(found, more...)
	if slices.ContainsFunc(found, func(f report.Finding) bool { return f.Severity == report.Error }) {
		return nil, found
	}
	return args, found
}

// closed reports whether the schema forbids undeclared arguments. Validation then reports them.
func (s *Schema) closed() bool {
	if s.compiled == nil {
		return false
	}
	allowed, ok := s.compiled.AdditionalProperties.(bool)
	return ok && !allowed
}

func sameName(written map[string]string, name string) (string, bool) {
	for declared, w := range written {
		if Normalized(declared) == Normalized(name) {
			return w, true
		}
	}
	return "", false
}

// owned returns the reserved argument that a variable of this name would set; "": none. Some
// engines accept a prefix of an argument's name. So a variable that the schema does not declare
// must not be a prefix of a reserved name.
func owned(name string, reserved []string, declared bool) string {
	for _, r := range reserved {
		if r == name || !declared && strings.HasPrefix(r, name) {
			return r
		}
	}
	return ""
}

func arguments(values map[string]any, written map[string]string) (out []string, found []report.Finding) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field := variables + "." + orSame(written, name)
		value, flag, none, err := text(values[name])
		switch {
		case err != nil:
			found = append(found, mistake(field, err.Error(), "write a value, or remove the variable"))
		case none:
		case flag:
			out = append(out, "--"+name)
		case strings.ContainsRune(value, 0):
			found = append(found, mistake(field, "has a NUL character", "remove it"))
		case strings.HasPrefix(value, "-") && !isNumber(value):
			found = append(found, mistake(field,
				"begins with -, so that the engine may read it as another argument",
				"write a value that begins otherwise"))
		default:
			out = append(out, "--"+name, value)
		}
	}
	return out, found
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
