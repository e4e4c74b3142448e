package install

import (
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Search returns the path of the program of an engine's version; "": not found. It searches PATH,
// then the Engine's folders, then the folders `installed`.
func Search(engine, version string, p v1alpha1.ProcessTemplate, installed []string) string {
	if found, err := exec.LookPath(p.Program); err == nil {
		return found
	}
	if filepath.IsAbs(p.Program) {
		return ""
	}
	for _, folder := range p.Path {
		if found, err := exec.LookPath(filepath.Join(folder, p.Program)); err == nil {
			return found
		}
	}
	return Find(installed, engine, version, p.Program)
}

// Find returns the path of an engine's program in the first folder that has the engine; "": none.
// Each installation has a different path.
func Find(folders []string, engine, version, program string) string {
	name := engine + "-" + version
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") || program != filepath.Base(program) {
		return ""
	}
	for _, folder := range folders {
		target, err := filepath.EvalSymlinks(filepath.Join(folder, name))
		if err != nil {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(target, "bin", program)); err == nil {
			return path
		}
	}
	return ""
}
