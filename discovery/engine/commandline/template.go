package commandline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Values has the values of ${path} in a template.
type Values struct {
	Host, Port                     string
	Namespace, Deployment, Replica string
	ModelName, ModelFile           string
	ServedName                     string
	Adapter                        *Adapter // nil: a text that names an adapter's path is invalid
	Pod                            bool     // the server is a pod, so Replica has no value
}

// Adapter has the values that replace ${adapter.name} and ${adapter.path} in a template.
type Adapter struct{ Name, Path string }

func (a *Adapter) byPath() map[string]string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(struct { // cannot fail: all fields are texts
		Name string `json:"name"`
		Path string `json:"path"`
	}{a.Name, a.Path})
	return map[string]string{"adapter.name": a.Name, "adapter.path": a.Path,
		"adapter.json": strings.TrimSpace(b.String())}
}

func (v Values) byPath() map[string]string {
	source := v.ModelFile
	if source == "" {
		source = v.ModelName
	}
	out := map[string]string{
		"host": v.Host, "port": v.Port, "namespace": v.Namespace, "deployment": v.Deployment, "replica": v.Replica,
		"model.name": v.ModelName, "model.file": v.ModelFile, "model.servedName": v.ServedName, "model.source": source,
	}
	if v.Pod {
		delete(out, "replica")
	}
	if v.Adapter != nil {
		maps.Copy(out, v.Adapter.byPath())
	}
	return out
}

// Paths returns the paths that ${path} in a template may name, sorted, without the paths of
// adapters.
func Paths() []string { return slices.Sorted(maps.Keys(Values{}.byPath())) }

// Expand replaces each ${path} in text by its value. "$${" becomes "${".
func (v Values) Expand(text string) (string, error) { return expand(text, v.byPath()) }

func expand(text string, values map[string]string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			return out.String() + text, nil
		}
		if literal, escaped := strings.CutSuffix(before, "$"); escaped {
			out.WriteString(literal + "${")
			text = rest
			continue
		}
		path, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("%q has no closing brace; write $${ for the text ${", "${"+rest)
		}
		value, known := values[path]
		if !known {
			paths := slices.Sorted(maps.Keys(values))
			fix := "write one of " + strings.Join(paths, ", ")
			if near := report.Nearest(path, paths); near != "" {
				fix = "write ${" + near + "}"
			}
			return "", fmt.Errorf("${%s} is no value of a template: %s", path, fix)
		}
		out.WriteString(before)
		out.WriteString(value)
		text = after
	}
}

// Check returns the mistakes in the templates and schemas of an Engine.
func Check(e *v1alpha1.Engine) (out []report.Finding) {
	for i, version := range e.Spec.Versions {
		field := fmt.Sprintf("spec.versions[%d].", i)
		if version.ValuesSchema != nil {
			if _, err := Compile(version.ValuesSchema.Raw); err != nil {
				out = append(out, mistake(field+"valuesSchema", "is no usable JSON Schema: "+err.Error(),
					"correct the schema; it may refer to its own definitions only"))
			}
		}
		p := version.DeployTemplate.Process
		field += "deployTemplate.process."
		values := Values{}
		text := func(field, text string) {
			if _, err := values.Expand(text); err != nil {
				out = append(out, mistake(field, err.Error(), "correct the template"))
			}
		}
		for j, arg := range p.Args {
			text(fmt.Sprintf("%sargs[%d]", field, j), arg)
		}
		for _, task := range slices.Sorted(maps.Keys(p.Tasks)) {
			if !slices.Contains(version.SupportedTasks, task) {
				out = append(out, mistake(field+"tasks."+task, "is not in supportedTasks of this version",
					near(task, version.SupportedTasks)))
			}
			for j, arg := range p.Tasks[task] {
				text(fmt.Sprintf("%stasks.%s[%d]", field, task, j), arg)
			}
		}
		for j, env := range p.Env {
			text(fmt.Sprintf("%senv[%d].value", field, j), env.Value)
		}
		lora := version.Capabilities.LoRA
		if lora == nil {
			continue
		}
		field = fmt.Sprintf("spec.versions[%d].capabilities.lora.", i)
		for j, arg := range lora.Args {
			text(fmt.Sprintf("%sargs[%d]", field, j), arg)
		}
		values.Adapter = &Adapter{}
		for j, arg := range lora.Each {
			text(fmt.Sprintf("%seach[%d]", field, j), arg)
		}
	}
	return out
}

func mistake(field, problem, fix string) report.Finding {
	return report.Finding{Severity: report.Error, Field: field, Problem: problem, Fix: fix}
}

func near(name string, names []string) string {
	if n := report.Nearest(name, names); n != "" {
		return "write " + n
	}
	if len(names) == 0 {
		return "remove it"
	}
	const most = 16
	list := slices.Sorted(slices.Values(names))
	if len(list) > most {
		return fmt.Sprintf("write one of %s and %d others", strings.Join(list[:most], ", "), len(list)-most)
	}
	return "write one of " + strings.Join(list, ", ")
}
