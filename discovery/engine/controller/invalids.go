package controller

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// invalids has the primary keys of store.Invalids, which mark objects that exist but are invalid.
type invalids map[string]bool

const (
	isInvalid = " is invalid: see its own finding"
	correctIt = "correct it"
)

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

// found returns the findings about a deployment's fields. If the engine is invalid, a finding
// reports this instead of an absent engine.
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
