// Package render says which Kubernetes objects a Gateway's proxies are: ServiceAccount, ConfigMap, Deployment, Service,
// PodDisruptionBudget and, if it is asked for, a HorizontalPodAutoscaler, one file a kind.
//
// It is pure: the same input gives the same objects. fleet calls it and applies what comes out.
//
// Invariants: names and selectors derive from the Gateway's name and class alone; all objects are in the Gateway's namespace
// and belong to it, so that they go with it; what a user writes into spec.infrastructure or an EnvoyFleet never replaces a
// label that we select by. A listener's change touches the Service only: pods roll when their bootstrap, image or template
// changes, and not when the certificate authority does, which they read from a file that follows.
//
// Tests: go test ./xds/fleet/render; `make golden` rewrites testdata.
package render
