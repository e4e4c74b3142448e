// Package v1alpha1 holds the kinds of penstock.dev/v1alpha1: ModelServers, PoolPolicy, EnvoyFleet. They are plain API types; the
// CRDs beside them are generated (make generate), and the defaults and rules that users meet are written here, as
// markers on the fields.
//
// +kubebuilder:object:generate=true
// +groupName=penstock.dev
package v1alpha1
