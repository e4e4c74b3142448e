package deployment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/penstock-project/penstock/discovery/engine/catalog"
	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Plan states how to run and route a valid ModelDeployment.
type Plan struct {
	Deployment *v1alpha1.ModelDeployment
	Version    string                   // version of the engine
	Process    v1alpha1.ProcessTemplate // of Version
	ServedName string                   // the model's name in requests
	Replicas   int
	Idle       time.Duration // time without requests after which the servers stop; 0: never
	Keep       bool          // the servers do not stop to make room for other deployments
	Recreate   bool          // a change first ends all servers, then starts new ones
	// Share, Accelerator and Devices state which accelerators each server requests.
	Share       devices.Share // 0: no accelerator
	Accelerator string
	Devices     *v1alpha1.EngineDevices // nil: the engine uses none
	Spread      bool                    // fractions prefer accelerators without another server
	Host        devices.Host            // the cores and main memory that each server reserves
	selects     bool                    // servers see only their own accelerators
	metrics     string
	metricsPath string // "": the default path
	task        string
	lora        *v1alpha1.AdapterTemplate // nil: the version cannot load adapters
	images      map[string]v1alpha1.ImageReference
	kubernetes  *apiextensionsv1.JSON // template of pods; nil: the engine has none
	arguments   []string              // the arguments that the variables become
}

// FieldEngine is the field of a ModelDeployment that names the Engine.
const FieldEngine = "spec.engine.name"

const defaultIdle = 15 * time.Minute

// New makes the Plan of a deployment. engines has the users' Engine objects by name. The Plan is
// nil if a finding is an error.
func New(d *v1alpha1.ModelDeployment, engines map[string]*v1alpha1.Engine) (*Plan, []report.Finding) {
	p := &Plan{Deployment: d, ServedName: cmp.Or(d.Spec.Model.ServedName, d.Spec.Model.Name), Replicas: 1,
		task: cmp.Or(d.Spec.Model.Task, v1alpha1.TextGeneration)}
	p.Idle, p.Keep, p.Recreate = defaultIdle, d.Spec.Keep, d.Spec.Strategy == v1alpha1.Recreate
	if d.Spec.Idle != nil {
		p.Idle = d.Spec.Idle.Duration
	}
	if d.Spec.Replicas != nil {
		p.Replicas = int(*d.Spec.Replicas)
	}
	found := append(gateways(d), access(d)...)
	version, problem := p.version(engines)
	if problem != nil {
		return nil, append(found, *problem)
	}
	p.Version, p.Process, p.metrics = version.Version, version.DeployTemplate.Process, version.Metrics
	p.images, p.kubernetes, p.lora = version.Images, version.DeployTemplate.Kubernetes, version.Capabilities.LoRA
	if m := version.Capabilities.MetricsExport; m != nil {
		p.metricsPath = m.Path
	}
	if !slices.Contains(version.SupportedTasks, p.task) {
		found = append(found, mistake("spec.model.task", fmt.Sprintf("engine %s %s does not support %s",
			d.Spec.Engine.Name, version.Version, p.task), "write one of "+strings.Join(version.SupportedTasks, ", ")))
	}
	var schema *commandline.Schema
	if version.ValuesSchema != nil {
		var err error
		if schema, err = commandline.Compile(version.ValuesSchema.Raw); err != nil {
			return nil, append(found, mistake(FieldEngine, fmt.Sprintf("the valuesSchema of engine %s %s is "+
				"invalid: %v", d.Spec.Engine.Name, version.Version, err), "correct the Engine"))
		}
	}
	p.Host, p.Spread = reservation(d.Spec.Resources), d.Spec.Placement.Strategy == v1alpha1.Spread
	found = append(found, p.accelerators(version)...)
	found = append(found, p.adapters(engines)...)
	reserved := p.reserved()
	vars, more := p.variables(reserved)
	found = append(found, more...)
	p.arguments, more = commandline.Arguments(vars, schema, reserved)
	found = append(found, more...)
	if _, err := p.Command(Server{}); err != nil {
		found = append(found, mistake(FieldEngine, fmt.Sprintf("the template of engine %s %s is invalid: %v",
			d.Spec.Engine.Name, version.Version, err), "correct the Engine"))
	}
	if slices.ContainsFunc(found, func(f report.Finding) bool { return f.Severity == report.Error }) {
		return nil, found
	}
	return p, found
}

func (p *Plan) version(engines map[string]*v1alpha1.Engine) (*v1alpha1.EngineVersion, *report.Finding) {
	wanted := p.Deployment.Spec.Engine
	e := engineOf(wanted.Name, engines)
	if e == nil {
		names := slices.AppendSeq(catalog.Names(), maps.Keys(engines))
		return nil, new(mistake(FieldEngine, fmt.Sprintf("there is no engine %q", wanted.Name),
			choose(wanted.Name, names)))
	}
	var versions []string
	for i := range e.Spec.Versions {
		if v := &e.Spec.Versions[i]; wanted.Version == "" || v.Version == wanted.Version {
			return v, nil
		}
		versions = append(versions, e.Spec.Versions[i].Version)
	}
	return nil, new(mistake("spec.engine.version", fmt.Sprintf("engine %s has no version %q", wanted.Name,
		wanted.Version), choose(wanted.Version, versions)))
}

// engineOf returns the user's Engine object or, without one, the built-in Engine; nil if neither
// exists.
func engineOf(name string, engines map[string]*v1alpha1.Engine) *v1alpha1.Engine {
	if e := engines[name]; e != nil {
		return e
	}
	e, _ := catalog.Get(name)
	return e
}

func choose(name string, names []string) string {
	if near := report.Nearest(name, names); near != "" {
		return "write " + near
	}
	slices.Sort(names)
	return "write one of " + strings.Join(slices.Compact(names), ", ")
}

func mistake(field, problem, fix string) report.Finding {
	return report.Finding{Severity: report.Error, Field: field, Problem: problem, Fix: fix}
}

func warning(field, problem, fix string) report.Finding {
	return report.Finding{Severity: report.Warning, Field: field, Problem: problem, Fix: fix}
}

func gateways(d *v1alpha1.ModelDeployment) (out []report.Finding) {
	for i, g := range d.Spec.GatewayRefs {
		if g.Namespace != "" && g.Namespace != d.Namespace && len(d.Spec.Hostnames) == 0 {
			out = append(out, mistake(fmt.Sprintf("spec.gatewayRefs[%d].namespace", i),
				"a Gateway of another namespace needs hostnames: other routes there may have the same model",
				"write spec.hostnames"))
		}
	}
	if len(d.Spec.GatewayRefs) == 0 {
		out = append(out, warning("spec.gatewayRefs", "no Gateway routes requests to the model",
			"write a Gateway, or an HTTPRoute to InferencePool "+d.Name))
	}
	return out
}

// ID returns the deployment's key in the store.
func (p *Plan) ID() string { return store.ID(p.Deployment) }

// Server has the address of one replica, and the values that its command needs.
type Server struct {
	Replica int
	Host    string
	Port    uint16
	Devices []devices.Device // the server's accelerators; empty: the deployment requests none
	// Draining means that the server gets no new requests. It does not change the command.
	Draining bool
	Model    string // path of the model; "": the deployment names no registry
	// Adapters are the paths of adapters by name.
	Adapters map[string]string
	// Secrets has the values of the environment variables that come from Secrets, by variable name.
	Secrets map[string]string
}

// Command has the arguments and the environment of one server.
type Command struct {
	Args []string
	Env  []v1alpha1.EngineEnv // each name occurs once
}

// Command returns the command of a server, without the program.
func (p *Plan) Command(s Server) (c Command, err error) {
	values := p.values(s)
	if c.Args, err = expandAll(values, p.Process.Args); err != nil {
		return c, err
	}
	further, err := p.further(s, values)
	if err != nil {
		return c, err
	}
	c.Args = append(c.Args, further...)
	for _, env := range p.Process.Env {
		if env.Value, err = values.Expand(env.Value); err != nil {
			return c, err
		}
		c.Env = append(c.Env, env)
	}
	for _, env := range p.environment(s) {
		c.Env = slices.DeleteFunc(c.Env, func(e v1alpha1.EngineEnv) bool { return e.Name == env.Name })
		c.Env = append(c.Env, env)
	}
	return c, nil
}

func (p *Plan) values(s Server) commandline.Values {
	d := p.Deployment
	values := commandline.Values{Host: s.Host, Port: strconv.Itoa(int(s.Port)), Namespace: d.Namespace,
		Deployment: d.Name, Replica: strconv.Itoa(s.Replica), ModelName: d.Spec.Model.Name,
		ModelFile: d.Spec.Model.File, ServedName: p.ServedName}
	if d.Spec.Model.Registry != "" {
		values.ModelFile = s.Model
	}
	return values
}

// further returns the arguments that follow the Engine's arguments: for the task, the adapters and
// the variables.
func (p *Plan) further(s Server, values commandline.Values) ([]string, error) {
	args, err := expandAll(values, p.Process.Tasks[p.task])
	if err != nil {
		return nil, err
	}
	adapters, err := p.adapterArguments(s, values)
	return slices.Concat(args, adapters, p.arguments), err
}

func expandAll(values commandline.Values, texts []string) (out []string, err error) {
	for _, text := range texts {
		arg, err := values.Expand(text)
		if err != nil {
			return nil, err
		}
		out = append(out, arg)
	}
	return out, nil
}
