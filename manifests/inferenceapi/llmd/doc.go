// Package llmd holds the kinds of llm-d.ai/v1alpha2 that configure an endpoint picker:
// InferenceModelRewrite and InferenceObjective. Their schemas come from llm-d's router. Clusters
// may have the same kinds in the former group, inference.networking.x-k8s.io/v1alpha2.
//
// +groupName=llm-d.ai
// +versionName=v1alpha2
package llmd

const (
	Group   = "llm-d.ai"
	Version = "v1alpha2"
)
