package deployments

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// invalids has the marks of objects that exist and are invalid, by primary key.
type invalids map[string]bool

const (
	isInvalid = " is invalid: see its own finding"
	correctIt = "correct it"
)

// follow records marks, and reports whether one changes.
func (i invalids) follow(op store.Op) bool {
	before := i[op.ID()]
	if delete(i, op.ID()); op.Object() != nil {
		i[op.ID()] = true
	}
	return before != i[op.ID()]
}

func (i invalids) has(ref report.Ref) bool {
	ref.Name = store.InvalidName(ref.Kind, ref.Name)
	return i[ref.Key()]
}

// found returns the findings about a deployment's fields. An engine that is invalid is not one that
// does not exist.
func (k *Keeper) found(e *entry) []report.Finding {
	out := slices.Clone(e.found)
	name := e.deployment.Spec.Engine.Name
	if k.engines[name] != nil || !k.models.invalids.has(store.RefOf(store.Engines, name)) {
		return out
	}
	for i, f := range out {
		if f.Field == deployment.FieldEngine && f.Severity == report.Error {
			out[i].Problem, out[i].Fix = "engine "+name+isInvalid, correctIt
		}
	}
	return out
}
