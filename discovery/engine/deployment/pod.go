package deployment

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/pod"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// modelsInPods is the folder in a pod for models of registries.
const modelsInPods = "/models"

// Pod returns the pod template of the deployment's servers on Kubernetes. Penstock does not deploy
// it yet. accelerator selects one of the version's images. If accelerator is "", the Engine's
// devices select the image, or the image for cpu is used without accelerators. The template is nil
// if a finding is an error.
func (p *Plan) Pod(accelerator string) (*corev1.PodTemplateSpec, []report.Finding) {
	d := p.Deployment
	engine := fmt.Sprintf("engine %s %s", d.Spec.Engine.Name, p.Version)
	if p.kubernetes == nil {
		return nil, []report.Finding{mistake(FieldEngine, engine+" has no template for Kubernetes",
			"write deployTemplate.kubernetes in the Engine")}
	}
	t, broken := pod.Parse(p.kubernetes.Raw)
	if t == nil {
		return nil, p.ofTemplate(engine, broken)
	}
	resources, accelerator, found := p.podResources(accelerator, engine)
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Variables)) {
		if slices.Contains(t.Reserved(), commandline.Normalized(name)) {
			found = append(found, mistake("spec.variables."+name, "the engine's template of pods sets --"+
				commandline.Normalized(name), "remove the variable"))
		}
	}
	s := Server{Host: "0.0.0.0", Port: t.Port(), Adapters: map[string]string{}}
	if d.Spec.Model.Registry != "" {
		s.Model = path.Join(modelsInPods, d.Spec.Model.Name)
		found = append(found, unread("spec.model.registry", "its model to "+s.Model))
	}
	for i, a := range d.Spec.Adapters {
		if a.Source == nil {
			continue
		}
		if s.Adapters[a.Name] = a.Source.Path; a.Source.Registry != "" {
			s.Adapters[a.Name] = path.Join(modelsInPods, a.Source.Name)
			found = append(found, unread(AdapterField(i)+".source.registry", "the adapter to "+s.Adapters[a.Name]))
		}
	}
	values := t.Values(p.values(s))
	server := pod.Server{Values: values, Image: string(p.images[accelerator]), Process: &p.Process,
		Env: p.podEnv(), Resources: resources, Labels: map[string]string{v1alpha1.DeploymentLabel: d.Name}}
	var err error
	if !t.Args() {
		server.Base, err = expandAll(values, p.Process.Args)
	}
	if err == nil {
		server.Args, err = p.further(s, values)
	}
	if err != nil {
		return nil, append(found, p.ofTemplate(engine, []report.Finding{mistake("process", err.Error(), "")})...)
	}
	out, broken := t.Render(server)
	if len(broken) > 0 {
		return nil, append(found, p.ofTemplate(engine, broken)...)
	}
	if slices.ContainsFunc(out.Spec.Containers, func(c corev1.Container) bool { return c.Image == "" }) {
		has := slices.Sorted(maps.Keys(p.images))
		found = append(found, mistake(FieldEngine, engine+" has no image for "+accelerator,
			"write one in images of the Engine, which has "+cmp.Or(strings.Join(has, ", "), "none")))
	}
	if slices.ContainsFunc(found, func(f report.Finding) bool { return f.Severity == report.Error }) {
		return nil, found
	}
	return out, found
}

func (p *Plan) ofTemplate(engine string, found []report.Finding) (out []report.Finding) {
	for _, f := range found {
		out = append(out, mistake(FieldEngine, fmt.Sprintf("the template of %s is invalid: deployTemplate.%s: %s",
			engine, f.Field, f.Problem), "correct the Engine"))
	}
	return out
}

// unread returns a warning that Penstock does not yet download this model or adapter into pods.
func unread(field, what string) report.Finding {
	return warning(field, "nothing downloads "+what+" in a pod yet", "mount it in the Engine's template")
}

// podResources returns the resources that a pod requests. chosen is the accelerator whose image the
// pod gets.
func (p *Plan) podResources(accelerator, engine string) (
	r corev1.ResourceRequirements, chosen string, found []report.Finding,
) {
	r = corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	wanted := p.Deployment.Spec.Resources
	for name, quantity := range map[corev1.ResourceName]*resource.Quantity{
		corev1.ResourceCPU: wanted.CPU, corev1.ResourceMemory: wanted.Memory} {
		if quantity != nil {
			r.Requests[name] = *quantity
		}
	}
	if p.Accelerator != "" {
		found = append(found, warning(FieldAccelerator, "selects no node of Kubernetes yet",
			"write a nodeSelector in the Engine's template"))
	}
	implied := devices.CPU
	if p.Share > 0 {
		implied = devices.AcceleratorOf(p.Devices.Variable)
	}
	chosen = cmp.Or(accelerator, implied)
	name := devices.ExtendedResource(chosen)
	switch {
	case p.Share == 0 && name != "":
		found = append(found, mistake(FieldGPU, "is 0 or absent: a pod gets no accelerator", "write "+FieldGPU+": 1"))
	case p.Share == 0:
	case name == "":
		found = append(found, mistake(FieldGPU, engine+" has devices of no accelerator that Kubernetes knows",
			"select one of "+strings.Join(devices.AcceleratorNames(), ", ")))
	case p.Share%devices.Whole != 0:
		found = append(found, mistake(FieldGPU, "is a fraction: a pod gets whole accelerators",
			"write "+FieldGPU+": 1"))
	default:
		r.Limits[corev1.ResourceName(name)] = *resource.NewQuantity(int64(p.Share/devices.Whole), resource.DecimalSI)
	}
	return r, chosen, found
}

// podEnv returns the environment variables of pods. The kubelet reads the values of Secrets.
func (p *Plan) podEnv() (out []corev1.EnvVar) {
	for _, env := range p.Deployment.Spec.Env {
		v := corev1.EnvVar{Name: env.Name, Value: pod.Literal(env.Value)}
		if env.ValueFrom != nil {
			ref := env.ValueFrom.SecretKeyRef
			v = corev1.EnvVar{Name: env.Name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}, Key: ref.Key}}}
		}
		out = append(out, v)
	}
	return out
}
