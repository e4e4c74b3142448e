// Package inferenceapi holds kinds of inference.networking.x-k8s.io that upstream publishes in
// another shape or no longer: InferencePoolImport (a superset of upstream's controllers[] and of
// the multi-cluster proposal's clusters[]) and InferenceModel of v1alpha2.
//
// +groupName=inference.networking.x-k8s.io
// +versionName=v1alpha1
package inferenceapi
