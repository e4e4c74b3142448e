package deployment

import "github.com/penstock-project/penstock/manifests/v1alpha1"

// environment returns the environment variables that the deployment sets. s has the values from
// Secrets.
func (p *Plan) environment(s Server) (out []v1alpha1.EngineEnv) {
	for _, env := range p.Deployment.Spec.Env {
		value := env.Value
		if env.ValueFrom != nil {
			value = s.Secrets[env.Name]
		}
		out = append(out, v1alpha1.EngineEnv{Name: env.Name, Value: value})
	}
	return append(out, p.selection(s)...)
}
