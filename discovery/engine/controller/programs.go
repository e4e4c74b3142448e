package controller

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/install"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func (k *Keeper) programs() map[string]string {
	out := map[string]string{}
	for id, e := range k.entries {
		if e.missing = ""; e.plan == nil || e.conflict != nil {
			continue
		}
		program, err := k.program(e.plan)
		if err != nil {
			e.missing = err.Error()
			how := e.plan.Process.Install
			if field := k.programField(e.plan); field != "" && (how == "" || filepath.IsAbs(e.plan.Process.Program)) {
				e.missing += ": see " + field
			}
			if how != "" {
				e.missing += "; install it with: " + how
			}
		}
		out[id] = program
	}
	return out
}

func (k *Keeper) program(p *deployment.Plan) (string, error) {
	if p.Process.Program == "penstock" {
		return k.cfg.Program, nil
	}
	found := install.Search(p.Deployment.Spec.Engine.Name, p.Version, p.Process, k.cfg.Installed)
	if found == "" {
		return "", fmt.Errorf("the program %s %s", p.Process.Program, k.absent(p))
	}
	return found, nil
}

func (k *Keeper) absent(p *deployment.Plan) string {
	program := p.Process.Program
	if !filepath.IsAbs(program) {
		return "is not on PATH"
	}
	why := "is not executable"
	switch info, err := k.disk.Stat(program); {
	case errors.Is(err, fs.ErrNotExist):
		why = "does not exist"
	case err != nil:
		why = "cannot be read: " + err.Error()
	case info.IsDir():
		why = "is a folder"
	}
	return why
}

// programField names the field with the program of a user's Engine; "": the engine is built in.
func (k *Keeper) programField(p *deployment.Plan) string {
	engine := k.engines[p.Deployment.Spec.Engine.Name]
	if engine == nil {
		return ""
	}
	i := slices.IndexFunc(engine.Spec.Versions, func(v v1alpha1.EngineVersion) bool { return v.Version == p.Version })
	if i < 0 { // p is the last valid version of a deployment
		return ""
	}
	return fmt.Sprintf("Engine %s spec.versions[%d].deployTemplate.process.program", engine.Name, i)
}

const pathVariable = "PATH="

// inherited returns the environment of a program. Its folder is appended to PATH, because engines
// execute other programs there.
func (k *Keeper) inherited(program string) []string {
	dir := filepath.Dir(program)
	i := slices.IndexFunc(k.cfg.Inherited, func(v string) bool { return strings.HasPrefix(v, pathVariable) })
	if program == k.cfg.Program || !filepath.IsAbs(program) {
		return k.cfg.Inherited
	}
	if i < 0 {
		return append(slices.Clone(k.cfg.Inherited), pathVariable+dir)
	}
	value := strings.TrimPrefix(k.cfg.Inherited[i], pathVariable)
	if slices.Contains(filepath.SplitList(value), dir) {
		return k.cfg.Inherited
	}
	out := slices.Clone(k.cfg.Inherited)
	out[i] = pathVariable + value + string(filepath.ListSeparator) + dir
	return out
}
