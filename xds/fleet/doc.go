// Package fleet runs the proxies of Gateways on Kubernetes. render builds the objects, apply writes
// them, and drain runs in the pods. cmd/penstock calls Set after each translation. Run reconciles
// the objects on the leading replica. On every replica, Member and Recheck map proxies to Gateways
// for xds/identity.
//
// Invariants: no object is deleted before Set was called and all objects were listed. Kubernetes
// collects the objects of a deleted Gateway. A Gateway that is not accepted keeps its proxies. Each
// object has a hash of its input, so that a new leader writes no unchanged objects.
//
// Tests: go test ./xds/fleet/... (against a cluster in memory); against a real one: make test-lab.
package fleet
