// Package render builds the Kubernetes objects of a Gateway's proxies: ServiceAccount, ConfigMap,
// NetworkPolicy, Deployment, Service, PodDisruptionBudget and, if requested, a
// HorizontalPodAutoscaler. Each kind has its own file.
//
// It is pure: the same input gives the same objects. fleet calls it and applies the objects.
//
// Invariants: names and selectors derive only from the Gateway's name and class. All objects are in
// the Gateway's namespace and owned by it, so that they are deleted with it. Labels and annotations
// of spec.infrastructure or an EnvoyFleet never replace a label that a selector uses. A change of a
// listener affects only the Service and the NetworkPolicy. Pods roll when their bootstrap, image or
// template changes. A new certificate authority rolls no pod, because Envoy watches its file.
//
// Tests: go test ./xds/fleet/render; `make golden` rewrites testdata.
package render
