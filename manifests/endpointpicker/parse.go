package endpointpicker

import (
	"errors"
	"fmt"
	"io"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	kubejson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxText bounds a document, in bytes.
const maxText = 256 << 10

// Parse reads and resolves a document in YAML or JSON.
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
		return nil,
			[]Problem{
				{Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), maxText),
					Fix: "remove comments and plugins that no profile names"},
			}
	}
	var c EndpointPickerConfig
	if err := decode(text, &c); err != nil {
		reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "json: ")
		return nil, []Problem{{Problem: "is not an " + Kind + ": " + reason, Fix: "correct or remove what it names"}}
	}
	if at := second(text); at > 0 {
		return nil,
			[]Problem{
				{Problem: fmt.Sprintf("has a second YAML document, at line %d", at),
					Fix: "remove it: one " + Kind + " configures a picker"},
			}
	}
	var problems found
	problems.reject(c.Kind != Kind, "kind", "write kind: "+Kind, "must be %s, is %q", Kind, c.Kind)
	v := c.APIVersion
	problems.reject(v != Group+"/"+Version && v != Group+"/"+NextVersion && v != FormerGroup+"/"+Version, "apiVersion",
		"write apiVersion: "+Group+"/"+Version, "must be %s/%s, is %q", Group, Version, v)
	_, resolved := Resolve(&c)
	if problems = append(problems, resolved...); Invalid(problems) {
		return nil, problems
	}
	return &c, problems
}

const maxUnknown = 8

// decode returns an error with the path of an unknown field.
func decode(text string, to *EndpointPickerConfig) error {
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	unknown, err := kubejson.UnmarshalStrict(raw, to)
	if err != nil {
		return err
	}
	return errors.Join(unknown[:min(len(unknown), maxUnknown)]...)
}

// second returns the line, counted from 1, at which the second non-empty document of a text begins,
// or 0.
func second(text string) int {
	d := yamlnode.NewDecoder(strings.NewReader(text))
	for n := 0; ; n++ {
		var doc yamlnode.Node
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			return 1 + strings.Count(text, "\n") // the second document is not YAML
		}
		if n > 0 && len(doc.Content) > 0 && doc.Content[0].Tag != "!!null" {
			return doc.Content[0].Line
		}
	}
}
