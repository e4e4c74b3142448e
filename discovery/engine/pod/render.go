package pod

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// listenAll is the value of ${host} in a pod. The server listens on all addresses, because other
// pods connect to it.
const listenAll = "0.0.0.0"

// Values returns v with the host and port of a pod, and without a replica number.
func (t *Template) Values(v commandline.Values) commandline.Values {
	v.Pod, v.Host, v.Port = true, listenAll, strconv.Itoa(int(t.port))
	return v
}

// Server has the parts of a model server's pod that do not come from the template.
type Server struct {
	Values commandline.Values // from Template.Values
	Image  string             // used if the template has no image
	// Base are the arguments from deployTemplate.process. They are used if the template has no
	// arguments. Args follow the arguments of the template or of Base.
	Base, Args []string
	Process    *v1alpha1.ProcessTemplate
	Env        []corev1.EnvVar // replaces variables of the template with the same names
	Resources  corev1.ResourceRequirements
	Labels     map[string]string
}

// Render returns the PodTemplateSpec for a server. The fields of its findings begin with
// "kubernetes".
func (t *Template) Render(s Server) (*corev1.PodTemplateSpec, []report.Finding) {
	pod, found := t.expand(s.Values)
	if len(found) > 0 {
		return nil, found
	}
	c := engineOf(pod)
	if c.Image == "" {
		c.Image = s.Image
	}
	for _, arg := range slices.Concat(s.Base, s.Args) {
		c.Args = append(c.Args, Literal(arg))
	}
	if c.Env == nil {
		for _, env := range s.Process.Env {
			value, err := s.Values.Expand(env.Value)
			if err != nil {
				return nil, []report.Finding{mistake("process.env", err.Error(), "correct the template")}
			}
			c.Env = append(c.Env, corev1.EnvVar{Name: env.Name, Value: Literal(value)})
		}
	}
	for _, env := range s.Env {
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == env.Name })
		c.Env = append(c.Env, env)
	}
	if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == portName }) {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: portName, ContainerPort: t.port})
	}
	c.Resources.Limits = override(c.Resources.Limits, s.Resources.Limits)
	c.Resources.Requests = override(c.Resources.Requests, s.Resources.Requests)
	probes(c, s.Process)
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(s.Process.StopGraceSeconds))
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, s.Labels)
	return pod, nil
}

func override(list, by corev1.ResourceList) corev1.ResourceList {
	if list == nil && len(by) > 0 {
		list = corev1.ResourceList{}
	}
	maps.Copy(list, by)
	return list
}

const probePeriod = 5 // seconds

// probes adds the startup and readiness probes that a container lacks. It adds no liveness probe,
// because a server that is busy with long prompts responds late, and must not be restarted.
func probes(c *corev1.Container, p *v1alpha1.ProcessTemplate) {
	check := func() corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: p.Ready, Port: intstr.FromString(portName)}}
	}
	if c.StartupProbe == nil {
		c.StartupProbe = &corev1.Probe{ProbeHandler: check(), PeriodSeconds: probePeriod, TimeoutSeconds: probePeriod,
			FailureThreshold: max(1, (p.StartupTimeoutSeconds+probePeriod-1)/probePeriod)}
	}
	if c.ReadinessProbe == nil {
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: check(), PeriodSeconds: 2 * probePeriod,
			TimeoutSeconds: 2 * probePeriod, FailureThreshold: 3}
	}
}

// decode rejects unknown and duplicate fields, like an API server.
func decode(raw []byte) (*corev1.PodTemplateSpec, []report.Finding) {
	pod := &corev1.PodTemplateSpec{}
	strict, err := kjson.UnmarshalStrict(raw, pod)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return nil, []report.Finding{mistake(field, "is no pod template: "+err.Error(), "correct the template")}
	}
	return pod, nil
}
