// Package inferenceapi holds two kinds of inference.networking.x-k8s.io: InferencePoolImport, a
// superset of upstream's controllers[] and of the multi-cluster proposal's clusters[], and
// InferenceModel of v1alpha2, which upstream no longer publishes.
//
// +groupName=inference.networking.x-k8s.io
// +versionName=v1alpha1
package inferenceapi
