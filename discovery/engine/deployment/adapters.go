package deployment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/engine/catalog"
	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// AdapterField returns the field of the i-th adapter in a ModelDeployment.
func AdapterField(i int) string { return fmt.Sprintf("spec.adapters[%d]", i) }

// LoadsFiles reports whether the engine reads adapters from files.
func (p *Plan) LoadsFiles() bool {
	return p.lora != nil && slices.ContainsFunc(p.lora.Each, func(text string) bool {
		return strings.Contains(text, "${adapter.path}") || strings.Contains(text, "${adapter.json}")
	})
}

func (p *Plan) adapters(engines map[string]*v1alpha1.Engine) (found []report.Finding) {
	all := p.Deployment.Spec.Adapters
	if len(all) > 0 && p.lora == nil {
		return []report.Finding{mistake("spec.adapters", fmt.Sprintf("engine %s %s selects no adapter by a request's "+
			"model: it lacks the capability lora", p.Deployment.Spec.Engine.Name, p.Version), p.withLoRA(engines))}
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

// withLoRA returns the fix of a finding. It names the versions of the deployment's engine that load
// adapters or, without such a version, other engines that load adapters.
func (p *Plan) withLoRA(engines map[string]*v1alpha1.Engine) string {
	own := p.Deployment.Spec.Engine.Name
	names := slices.AppendSeq(catalog.Names(), maps.Keys(engines))
	slices.Sort(names)
	var same, others []string
	for _, name := range slices.Compact(names) {
		for _, v := range engineOf(name, engines).Spec.Versions {
			switch {
			case v.Capabilities.LoRA == nil:
			case name == own:
				same = append(same, v.Version)
			default:
				others = append(others, name+" "+v.Version)
			}
		}
	}
	switch {
	case len(same) > 0:
		return "use version " + strings.Join(same, " or ")
	case len(others) > 0:
		const most = 8
		return "remove it, or use an engine that has it: " + strings.Join(others[:min(len(others), most)], ", ")
	}
	return "remove it, or write capabilities.lora in an Engine"
}

func (p *Plan) reserved() []string {
	t := p.Process
	if len(p.Deployment.Spec.Adapters) > 0 && p.lora != nil {
		t.Args = slices.Concat(t.Args, p.lora.Args, p.lora.Each)
	}
	return commandline.Reserved(&t)
}

func (p *Plan) adapterArguments(s Server, values commandline.Values) (out []string, err error) {
	if p.lora == nil || len(p.Deployment.Spec.Adapters) == 0 {
		return nil, nil
	}
	out, err = expandAll(values, p.lora.Args)
	for _, a := range p.Deployment.Spec.Adapters {
		values.Adapter = &commandline.Adapter{Name: a.Name, Path: s.Adapters[a.Name]}
		each, problem := expandAll(values, p.lora.Each)
		if out = append(out, each...); problem != nil {
			err = problem
		}
	}
	return out, err
}

// name is a model name in requests. field is the field of the deployment that has the name.
type name struct{ text, field string }

func (p *Plan) names() []name {
	out := []name{{p.ServedName, "spec.model.servedName"}}
	for i, a := range p.Deployment.Spec.Adapters {
		out = append(out, name{a.Name, AdapterField(i) + ".name"})
	}
	return out
}
