package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// The reasons of a ModelRegistry's conditions.
const (
	secretNotFoundReason = "SecretNotFound"
	pathNotFoundReason   = "PathNotFound"
	reachableReason      = "Reachable"
	unreachableReason    = "Unreachable"
	notContactedReason   = "NotContacted"
)

type contact struct {
	reached bool
	problem string
}

func (k *Keeper) registryReports() (out []report.Report) {
	for _, id := range slices.Sorted(maps.Keys(k.models.registries)) {
		r := report.Report{Owner: store.RefOf(store.ModelRegistries, id)}
		accepted, found := k.models.accepted(id)
		if found != nil {
			found.Owner = r.Owner
			r.Findings = append(r.Findings, *found)
		}
		r.Conditions = []report.Condition{accepted}
		if found == nil {
			r.Conditions = append(r.Conditions, k.models.ready(id))
		}
		out = append(out, r)
	}
	return out
}

func (m *models) accepted(id string) (report.Condition, *report.Finding) {
	c := report.Condition{Type: ConditionAccepted, Status: report.True, Reason: acceptedReason}
	f := &report.Finding{Severity: report.Error}
	r := m.registries[id]
	switch namespace, _, _ := objectid.Split(id); {
	case r.Spec.Credentials != nil && m.token(namespace, r) == "":
		c.Status, c.Reason = report.False, secretNotFoundReason
		f.Field, f.Fix = "spec.credentials.secretRef.name", "write the Secret"
		f.Problem = fmt.Sprintf("the Secret %s does not exist or has no key %s", r.Spec.Credentials.SecretRef.Name,
			tokenKey)
	case r.Spec.Type == v1alpha1.FileRegistry && !fetch.Present(r.Spec.Path):
		c.Status, c.Reason = report.False, pathNotFoundReason
		f.Field, f.Fix = "spec.path", "create the folder, or correct the path"
		f.Problem = "there is no " + r.Spec.Path
	default:
		return c, nil
	}
	c.Message = f.Problem
	return c, f
}

// ready reports the outcome of the last contact. A registry of type file is always ready.
func (m *models) ready(id string) report.Condition {
	c := report.Condition{Type: ConditionReady, Status: report.True, Reason: reachableReason}
	last, known := m.contacts[id]
	switch {
	case m.registries[id].Spec.Type == v1alpha1.FileRegistry:
	case !known:
		c.Status, c.Reason, c.Message = report.Unknown, notContactedReason, "not contacted yet"
	case !last.reached:
		c.Status, c.Reason, c.Message = report.False, unreachableReason, last.problem
	}
	return c
}

// noted records whether a download reached its registries. An error without a field, such as a full
// disk, changes nothing.
func (m *models) noted(d *download, err error) {
	c := contact{reached: true}
	var e *fetch.Error
	if errors.As(err, &e) {
		switch {
		case e.Unasked || e.Field == "":
			return
		case e.Field == "registry":
			c = contact{problem: e.Problem}
		}
	} else if err != nil {
		return
	}
	for id := range d.registries {
		if m.registries[id] != nil {
			m.contacts[id] = c
		}
	}
}

func unsupportedRegistry(ref report.Ref) report.Report {
	const why = "Penstock starts model servers with penstock up only, not on Kubernetes, so it downloads no models"
	return report.Report{Owner: ref,
		Conditions: []report.Condition{
			{Type: ConditionAccepted, Status: report.False, Reason: notSupportedReason, Message: why}},
		Findings: []report.Finding{{Severity: report.Error, Owner: ref, Problem: why, Fix: "remove it"}}}
}
