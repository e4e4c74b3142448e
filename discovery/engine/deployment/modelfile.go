package deployment

import (
	"path/filepath"
	"slices"
	"strings"
)

// ModelFile states which file or folder must exist on this machine before a server starts. Only
// absolute paths are checked, because an engine may resolve other names itself, for example as
// models of a registry.
type ModelFile struct {
	Path string // absolute; "": no path is checked
	One  bool   // the engine needs a file, not a folder
	// Required means that the engine needs a file, but the deployment names no file.
	Required bool
}

// llamacpp is the value of Plan.metrics for llama.cpp, which reads its model from one file.
const llamacpp = "llamacpp"

// With one of these arguments or environment variables, llama.cpp downloads or finds a model
// itself.
var (
	elsewhere = []string{"hf-repo", "hf", "hfr", "model-url", "mu", "docker-repo", "dr", "models-dir",
		"models-preset"}
	elsewhereEnv = []string{"LLAMA_ARG_HF_REPO", "LLAMA_ARG_MODEL_URL", "LLAMA_ARG_DOCKER_REPO",
		"LLAMA_ARG_MODELS_"}
)

// ModelFile returns the file that a deployment without a registry needs. inherited has the
// environment that servers inherit, as KEY=value.
func (p *Plan) ModelFile(inherited []string) (f ModelFile) {
	spec := p.Deployment.Spec.Model
	texts := slices.Concat(p.Process.Args, p.Process.Tasks[p.task])
	reads := slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(text, "${model.source}") || strings.Contains(text, "${model.file}")
	})
	if !reads || spec.Registry != "" {
		return f
	}
	if f.One = p.metrics == llamacpp; f.One && p.elsewhere(inherited) {
		return ModelFile{}
	}
	switch {
	case filepath.IsAbs(spec.File):
		f.Path = spec.File
	case spec.File != "" || !f.One:
	case filepath.IsAbs(spec.Name):
		f.Path = spec.Name
	default:
		f.Required = true
	}
	return f
}

func (p *Plan) elsewhere(inherited []string) bool {
	c, err := p.Command(Server{})
	if _, set := argument(c.Args, elsewhere); set || err != nil || slices.ContainsFunc(p.arguments,
		func(arg string) bool { return abbreviates(arg, elsewhere) }) {
		return true
	}
	names := slices.Clone(inherited)
	for _, env := range c.Env {
		names = append(names, env.Name)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(elsewhereEnv, func(begin string) bool { return strings.HasPrefix(name, begin) })
	})
}
