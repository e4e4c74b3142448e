package file

import "github.com/penstock-project/penstock/discovery/store"

func inferenceModelKind() *kind {
	return &kind{
		table:    store.InferenceModels,
		versions: []version{{"inference.networking.x-k8s.io/v1alpha2", nil}},
		crd:      "inferencemodels",
	}
}
