package deployment

import (
	"path/filepath"
	"slices"
	"strings"
)

// ModelFile is what must be on this machine before a server starts. It is about absolute paths: an
// engine may resolve other names by itself, for example as models of a registry.
type ModelFile struct {
	Path string // absolute; "": nothing is known
	One  bool   // the engine reads one file, never a folder
	// Required means that the engine reads a file, and the deployment names none.
	Required bool
}

// llamacpp is the dialect of metrics of an engine that reads one file.
const llamacpp = "llamacpp"

// With one of these, llama.cpp gets a model by itself.
var (
	elsewhere = []string{"hf-repo", "hf", "hfr", "model-url", "mu", "docker-repo", "dr", "models-dir",
		"models-preset"}
	elsewhereEnv = []string{"LLAMA_ARG_HF_REPO", "LLAMA_ARG_MODEL_URL", "LLAMA_ARG_DOCKER_REPO",
		"LLAMA_ARG_MODELS_"}
)

// ModelFile returns what a deployment without a registry needs. inherited has the KEY=value that
// servers inherit.
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

// elsewhere reports whether a command has an argument or a variable that names another source.
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
