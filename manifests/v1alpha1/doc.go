// Package v1alpha1 holds the kinds of penstock.dev/v1alpha1: ModelServers, Engine,
// ModelDeployment, PoolPolicy, APIKey, AccessPolicy, EnvoyFleet, ClusterSet and PoolExport. Markers
// on the fields declare defaults and validation rules; `make generate` writes the CRDs from them.
//
// +groupName=penstock.dev
package v1alpha1
