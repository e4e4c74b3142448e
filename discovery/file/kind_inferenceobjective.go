package file

import "github.com/penstock-project/penstock/discovery/store"

func inferenceObjectiveKind() *kind {
	return &kind{table: store.InferenceObjectives, versions: bothGroups(), crd: "inferenceobjectives"}
}
