package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// maxEnvValue is in bytes. Literal values have the same limit.
const maxEnvValue = 32 << 10

// environment has the variables of a deployment whose values come from Secrets. The values must not
// get into records, logs, reports or state files.
type environment struct {
	values map[string]string // by variable name
	waits  string            // why no server can start, or ""
	found  []report.Finding
}

// p may be nil.
func (k *Keeper) environment(p *deployment.Plan) (out environment) {
	if p == nil {
		return out
	}
	d := p.Deployment
	for i, env := range d.Spec.Env {
		if env.ValueFrom == nil {
			continue
		}
		value, problem := k.secretValue(d.Namespace, env.ValueFrom.SecretKeyRef)
		if problem != nil {
			problem.Severity = report.Error
			problem.Field = fmt.Sprintf("spec.env[%d].valueFrom.secretKeyRef.%s", i, problem.Field)
			out.found = append(out.found, *problem)
			continue
		}
		if out.values == nil {
			out.values = map[string]string{}
		}
		out.values[env.Name] = value
	}
	if len(out.found) > 0 {
		out.waits = out.found[0].Field + ": " + out.found[0].Problem
	}
	return out
}

// secretValue returns the value of a key, or a finding whose Field is relative to the reference.
func (k *Keeper) secretValue(namespace string, ref v1alpha1.SecretKey) (string, *report.Finding) {
	secret := k.models.secrets[objectid.Join(namespace, ref.Name)]
	if secret == nil {
		return "", &report.Finding{Field: "name",
			Problem: fmt.Sprintf("there is no Secret %s in the namespace %s", ref.Name, namespace),
			Fix:     nearest(ref.Name, k.secretNames(namespace), "write the Secret, or correct the name")}
	}
	value, ok := secret.Data[ref.Key]
	f := &report.Finding{Field: "key"}
	switch {
	case !ok:
		f.Problem = fmt.Sprintf("Secret %s has no key %s", ref.Name, ref.Key)
		f.Fix = nearest(ref.Key, slices.Collect(maps.Keys(secret.Data)), "write the key into the Secret, or correct it")
	case len(value) > maxEnvValue:
		f.Problem = fmt.Sprintf("key %s of Secret %s has %d bytes, at most %d are allowed", ref.Key, ref.Name,
			len(value), maxEnvValue)
		f.Fix = "write a shorter value into the Secret"
	case strings.ContainsRune(string(value), 0):
		f.Problem = fmt.Sprintf("key %s of Secret %s has a NUL character, which no environment variable can have",
			ref.Key, ref.Name)
		f.Fix = "write a value without it into the Secret"
	default:
		return string(value), nil
	}
	return "", f
}

func nearest(name string, names []string, otherwise string) string {
	if near := report.Nearest(name, names); near != "" {
		return "write " + near
	}
	return otherwise
}

func (k *Keeper) secretNames(namespace string) (out []string) {
	for id := range k.models.secrets {
		if ns, name, _ := objectid.Split(id); ns == namespace {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (k *Keeper) usesSecret(id string) bool {
	names := func(d *v1alpha1.ModelDeployment) bool {
		return slices.ContainsFunc(d.Spec.Env, func(env v1alpha1.DeploymentEnv) bool {
			return env.ValueFrom != nil && objectid.Join(d.Namespace, env.ValueFrom.SecretKeyRef.Name) == id
		})
	}
	for _, d := range k.deployments {
		if names(d) {
			return true
		}
	}
	for _, e := range k.entries {
		if e.plan != nil && names(e.plan.Deployment) {
			return true
		}
	}
	return false
}

func (e *environment) secretsOf() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		out = append(out, e.values[name])
	}
	return out
}
