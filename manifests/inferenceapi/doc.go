// Package inferenceapi holds two kinds of inference.networking.x-k8s.io. InferencePoolImport is a
// superset of upstream's controllers[] and of the multi-cluster proposal's clusters[].
// InferenceModel is from v1alpha2; upstream no longer publishes it.
//
// +groupName=inference.networking.x-k8s.io
// +versionName=v1alpha1
package inferenceapi
