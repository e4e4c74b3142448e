package deployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Fields of a ModelDeployment. FieldMemory reserves main memory.
const (
	FieldGPU         = "spec.resources.gpu"
	FieldMemory      = "spec.resources.memory"
	FieldAccelerator = "spec.resources.accelerator"
)

// reservation returns the cores and main memory that a server reserves. The CRD bounds both.
func reservation(r v1alpha1.DeploymentResources) (h devices.Host) {
	if r.CPU != nil {
		h.Cores = devices.Share(r.CPU.MilliValue())
	}
	if r.Memory != nil {
		h.Memory = (r.Memory.Value()-1)>>20 + 1 // rounded up
	}
	return h
}

// accelerators reads the deployment's request for accelerators into p. It also checks environment
// variables that select accelerators.
func (p *Plan) accelerators(version *v1alpha1.EngineVersion) (found []report.Finding) {
	d := p.Deployment
	p.Accelerator, p.Devices = strings.TrimSpace(d.Spec.Resources.Accelerator), version.Devices
	if gpu := d.Spec.Resources.GPU; p.Spread && (gpu == nil || gpu.Text == "0") {
		found = append(found, warning("spec.placement.strategy", "Spread has no effect without "+FieldGPU,
			"write "+FieldGPU+", such as 0.5, or remove it"))
	}
	if d.Spec.Resources.GPU == nil {
		if p.Accelerator != "" {
			found = append(found, warning(FieldAccelerator, "has no effect without "+FieldGPU,
				"write "+FieldGPU+": 1, or remove it"))
		}
		return found
	}
	share, err := devices.ParseShare(d.Spec.Resources.GPU.Text)
	if err != nil {
		return append(found, mistake(FieldGPU, err.Error(), "write 1, 2 or more, or a fraction such as 0.5"))
	}
	if version.Devices == nil {
		if share == 0 {
			return found
		}
		return append(found, mistake(FieldGPU, fmt.Sprintf("engine %s %s uses no accelerators",
			d.Spec.Engine.Name, version.Version), "remove it, or write devices in the Engine"))
	}
	p.Share, p.selects = share, true
	for i, env := range d.Spec.Env {
		for _, assignment := range (devices.Result{}).Environment(version.Devices.Variable) {
			if name, _, _ := strings.Cut(assignment, "="); name == env.Name {
				found = append(found, mistake(fmt.Sprintf("spec.env[%d].name", i),
					env.Name+" is set from "+FieldGPU, "remove one of them"))
			}
		}
	}
	return found
}

// variables returns the deployment's variables, and adds the variables that follow from the number
// of its accelerators.
func (p *Plan) variables(reserved []string) (map[string]apiextensionsv1.JSON, []report.Finding) {
	vars := p.Deployment.Spec.Variables
	if !p.selects || p.Share == 0 {
		return vars, nil
	}
	implied := func(name string, value any) map[string]apiextensionsv1.JSON {
		if slices.Contains(reserved, commandline.Normalized(name)) {
			return vars
		}
		raw, _ := json.Marshal(value)
		out := maps.Clone(vars)
		if out == nil {
			out = map[string]apiextensionsv1.JSON{}
		}
		out[name] = apiextensionsv1.JSON{Raw: raw}
		return out
	}
	switch parallel := p.Devices.ParallelArguments; {
	case p.Share > devices.Whole && len(parallel) > 0:
		for _, name := range parallel {
			if _, _, set := variable(vars, name); set {
				return vars, nil
			}
		}
		return implied(parallel[0], int(p.Share/devices.Whole)), nil
	case p.Share < devices.Whole && p.Devices.MemoryArgument != "":
		name, value, set := variable(vars, p.Devices.MemoryArgument)
		if !set {
			return implied(p.Devices.MemoryArgument, json.Number(p.Share.String())), nil
		}
		limit, err := strconv.ParseFloat(strings.Trim(string(value.Raw), `" `), 64)
		if err == nil && limit > float64(p.Share)/float64(devices.Whole) {
			return vars, []report.Finding{warning("spec.variables."+name, fmt.Sprintf("is more than the %s of an "+
				"accelerator in %s: servers on the same accelerator may lack memory", p.Share, FieldGPU),
				"write "+p.Share.String()+", or remove it")}
		}
	}
	return vars, nil
}

func variable(vars map[string]apiextensionsv1.JSON, argument string) (name string, v apiextensionsv1.JSON, ok bool) {
	for name, v := range vars {
		if commandline.Normalized(name) == commandline.Normalized(argument) {
			return name, v, true
		}
	}
	return "", v, false
}

// selection returns the environment variables that make a server use only its own accelerators.
func (p *Plan) selection(s Server) (out []v1alpha1.EngineEnv) {
	if !p.selects {
		return nil
	}
	for _, assignment := range (devices.Result{Devices: s.Devices}).Environment(p.Devices.Variable) {
		name, value, _ := strings.Cut(assignment, "=")
		out = append(out, v1alpha1.EngineEnv{Name: name, Value: value})
	}
	return out
}
