// Package render builds the Kubernetes objects of a Gateway's proxies: ServiceAccount, ConfigMap,
// NetworkPolicy, Deployment, Service, PodDisruptionBudget and, if requested, a
// HorizontalPodAutoscaler. Each kind has its own file.
//
// It is pure: the same input gives the same objects. fleet calls it and applies the objects.
//
// Invariants: names and selectors derive from the Gateway's name and class alone. All objects are
// in the Gateway's namespace and owned by it, so that they are deleted with it. Labels and
// annotations of spec.infrastructure or an EnvoyFleet never replace a label that selects. A
// listener's change affects the Service and the NetworkPolicy only. Pods roll when their bootstrap,
// image or template changes; a new certificate authority rolls none, because Envoy watches its
// file.
//
// Tests: go test ./xds/fleet/render; `make golden` rewrites testdata.
package render
