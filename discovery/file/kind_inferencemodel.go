package file

import (
	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/discovery/store"
)

func inferenceModelKind() *kind {
	return &kind{
		table:    store.InferenceModels,
		versions: []version{{"inference.networking.x-k8s.io/v1alpha2", nil}},
		crd:      "inferencemodels",
		check: func(store.Object) []mistake {
			return []mistake{{severity: report.Warning, problem: "is read, but nothing of it is used yet: model names, criticality and weights of target models have no effect"}}
		},
	}
}
