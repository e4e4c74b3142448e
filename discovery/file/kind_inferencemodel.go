package file

import "github.com/penstock-project/penstock/discovery/store"

// What of an InferenceModel has no effect yet is said by translation.
func inferenceModelKind() *kind {
	return &kind{
		table:    store.InferenceModels,
		versions: []version{{"inference.networking.x-k8s.io/v1alpha2", nil}},
		crd:      "inferencemodels",
	}
}
