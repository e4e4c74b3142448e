package controller

import (
	"errors"
	"io/fs"
)

// localModel finds a model without a registry, and reports an absent file better than engines do.
func (k *Keeper) localModel(e *entry) (out modelState) {
	want := e.plan.ModelFile(k.cfg.Inherited)
	spec := e.plan.Deployment.Spec.Model
	path, field := want.Path, "file"
	switch {
	case want.Required:
		path = "/" + spec.Name // servers have the working directory /
	case spec.File == "":
		field = "name"
	}
	if path == "" {
		return out
	}
	info, err := k.disk.Stat(path)
	switch {
	case err == nil && !(info.IsDir() && want.One):
		return out
	case want.Required:
		out.finding = modelProblem("file", "is required by engine "+e.plan.Deployment.Spec.Engine.Name,
			"write the path of the model's file, or registry")
	case err == nil:
		out.finding = modelProblem(field, path+" is a folder, and the engine reads a file",
			"write the path of the file")
	case errors.Is(err, fs.ErrNotExist):
		out.finding = modelProblem(field, path+" does not exist", "correct the path, or put the model there")
	default:
		return out
	}
	out.waits = out.finding.Field + ": " + out.finding.Problem
	return out
}
