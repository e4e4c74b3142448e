// Package render builds the Kubernetes objects of a Gateway's proxies. The same input gives the
// same objects. Package fleet calls it.
//
// Invariants: names and selectors derive only from the Gateway's name and class. Users' labels and
// annotations never replace a label that a selector uses. A change of a listener affects only the
// Service and the NetworkPolicy. A new certificate authority replaces no pod.
//
// Tests: go test ./xds/fleet/render; `make golden` rewrites testdata.
package render
