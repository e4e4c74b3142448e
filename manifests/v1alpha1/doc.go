// Package v1alpha1 holds the kinds of penstock.dev/v1alpha1: ModelServers, PoolPolicy, EnvoyFleet.
// They are plain API types. Markers on the fields declare the defaults and validation rules, and
// make generate writes the CRDs from them.
//
// +kubebuilder:object:generate=true
// +groupName=penstock.dev
package v1alpha1
