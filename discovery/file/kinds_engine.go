package file

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/engine/pod"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func checkEngine(c *checks, e *v1alpha1.Engine) {
	for _, f := range slices.Concat(commandline.Check(e), pod.Check(e)) {
		c.found = append(c.found, mistake{severity: f.Severity, field: f.Field, problem: f.Problem, fix: f.Fix})
	}
}
