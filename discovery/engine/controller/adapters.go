package controller

import (
	"maps"
	"strings"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// betweenPins joins deployment and adapter in keys of saved.Models. No object's name contains it.
const betweenPins = "#"

func pinOwner(name string) string {
	id, _, _ := strings.Cut(name, betweenPins)
	return id
}

// adapters finds or downloads a deployment's adapters, for which servers wait as for the model.
func (k *Keeper) adapters(id string, e *entry) {
	e.adapters = map[string]string{}
	wanted := map[string]bool{}
	for i, a := range e.plan.Deployment.Spec.Adapters {
		if a.Source == nil || !e.plan.LoadsFiles() {
			continue
		}
		pin := id + betweenPins + a.Name
		wanted[pin] = true
		state := k.adapter(pin, e, a.Source)
		if e.adapters[a.Name] = state.path; state.finding != nil {
			f := *state.finding
			f.Field = deployment.AdapterField(i) + ".source" + strings.TrimPrefix(f.Field, "spec.model")
			state.finding = &f
		}
		if state.waits != "" && (e.model.waits == "" || e.model.finding == nil && state.finding != nil) {
			e.model.waits, e.model.finding, e.model.progress = state.waits, state.finding, state.progress
		}
	}
	maps.DeleteFunc(k.saved.Models, func(name string, _ pin) bool {
		return strings.HasPrefix(name, id+betweenPins) && !wanted[name]
	})
}

func (k *Keeper) adapter(pin string, e *entry, s *v1alpha1.AdapterSource) modelState {
	if s.Path != "" {
		out := modelState{path: s.Path}
		if !fetch.Present(s.Path) {
			out.waits = "there is no " + s.Path
			out.finding = &report.Finding{Severity: report.Error, Field: "spec.model.path", Problem: out.waits,
				Fix: "correct the path, or put the adapter there"}
		}
		return out
	}
	plan, d := *e.plan, *e.plan.Deployment
	d.Spec.Model = v1alpha1.DeploymentModel{Registry: s.Registry, Name: s.Name, Version: s.Version, File: s.File}
	plan.Deployment = &d
	return k.model(pin, &entry{plan: &plan, missing: e.missing})
}
