package deployment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// AdapterField returns the field of an adapter.
func AdapterField(i int) string { return fmt.Sprintf("spec.adapters[%d]", i) }

// LoadsFiles reports whether the engine reads adapters from a path.
func (p *Plan) LoadsFiles() bool {
	return p.Process.Adapters != nil && slices.ContainsFunc(p.Process.Adapters.Each, func(text string) bool {
		return strings.Contains(text, "${adapter.path}") || strings.Contains(text, "${adapter.json}")
	})
}

// adapters reports adapters that the engine cannot load.
func (p *Plan) adapters(version *v1alpha1.EngineVersion) (found []report.Finding) {
	all := p.Deployment.Spec.Adapters
	if len(all) > 0 && p.Process.Adapters == nil {
		return []report.Finding{mistake("spec.adapters", fmt.Sprintf("engine %s %s selects no adapter by a request's "+
			"model", p.Deployment.Spec.Engine.Name, version.Version),
			"remove it, or write adapters in the template of an Engine")}
	}
	for i, a := range all {
		if a.Name == p.ServedName {
			found = append(found, mistake(AdapterField(i)+".name", "is the name of the model itself",
				"write another name"))
		}
		if a.Source == nil && p.LoadsFiles() {
			found = append(found, mistake(AdapterField(i)+".source", "is missing: the engine loads adapters from files",
				"write path, or registry and name"))
		}
	}
	return found
}

// reserved lists the arguments that variables cannot set.
func (p *Plan) reserved() []string {
	t := p.Process
	if len(p.Deployment.Spec.Adapters) > 0 && t.Adapters != nil {
		t.Args = slices.Concat(t.Args, t.Adapters.Args, t.Adapters.Each)
	}
	return commandline.Reserved(&t)
}

// adapterArguments are the arguments for the adapters of a server.
func (p *Plan) adapterArguments(s Server, values commandline.Values) (out []string, err error) {
	t := p.Process.Adapters
	if t == nil || len(p.Deployment.Spec.Adapters) == 0 {
		return nil, nil
	}
	expand := func(texts []string) error {
		for _, text := range texts {
			arg, err := values.Expand(text)
			if err != nil {
				return err
			}
			out = append(out, arg)
		}
		return nil
	}
	err = expand(t.Args)
	for _, a := range p.Deployment.Spec.Adapters {
		values.Adapter = &commandline.Adapter{Name: a.Name, Path: s.Adapters[a.Name]}
		if err == nil {
			err = expand(t.Each)
		}
	}
	return out, err
}

// name is a name in requests that leads to the deployment, and the field that has it.
type name struct{ text, field string }

func (p *Plan) names() []name {
	out := []name{{p.ServedName, "spec.model.servedName"}}
	for i, a := range p.Deployment.Spec.Adapters {
		out = append(out, name{a.Name, AdapterField(i) + ".name"})
	}
	return out
}
