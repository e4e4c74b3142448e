package endpointpicker

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxText bounds a document's text, in bytes.
const maxText = 256 << 10

// Parse reads a document in YAML or JSON, and resolves it.
func Parse(text string) (*Profile, []Problem) {
	c, problems := Read(text)
	if c == nil {
		return nil, problems
	}
	p, _ := Resolve(c)
	return p, problems
}

// Read reads a document in YAML or JSON. It returns nil if the document is invalid.
func Read(text string) (*EndpointPickerConfig, []Problem) {
	if len(text) > maxText {
		return nil, []Problem{{Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), maxText), Fix: "remove comments and plugins that no profile names"}}
	}
	var c EndpointPickerConfig
	if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
		reason := strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: ")
		reason = strings.TrimPrefix(strings.TrimPrefix(reason, "error converting YAML to JSON: "), "json: ")
		return nil, []Problem{{Problem: "is not an " + Kind + ": " + reason, Fix: "correct or remove what it names"}}
	}
	var problems []Problem
	if c.Kind != Kind {
		problems = append(problems, Problem{Field: "kind", Problem: fmt.Sprintf("must be %s, is %q", Kind, c.Kind), Fix: "write kind: " + Kind})
	}
	if v := c.APIVersion; v != Group+"/"+Version && v != FormerGroup+"/"+Version {
		problems = append(problems, Problem{Field: "apiVersion", Problem: fmt.Sprintf("must be %s/%s, is %q", Group, Version, v), Fix: "write apiVersion: " + Group + "/" + Version})
	}
	_, found := Resolve(&c)
	if problems = append(problems, found...); Invalid(problems) {
		return nil, problems
	}
	return &c, problems
}
