// Package fleet runs the proxies of a Gateway on Kubernetes: a Deployment of Envoys and its other
// objects for each Gateway of Penstock's classes. render builds the objects, apply writes them, and
// drain runs inside the pods. The package also reports the addresses of the proxies.
//
// After each translation cmd/penstock calls Set with the Gateways and their EnvoyFleetSpecs. Run,
// on the leading replica, reconciles their objects. On every replica, Member and Recheck map
// proxies to Gateways for xds/identity.
//
// Invariants: an object is written only if it differs from the cluster's. Nothing is deleted before
// Set was called and all objects were listed. Only objects of an existing Gateway are deleted;
// Kubernetes collects the objects of a deleted one. A Gateway that is not accepted keeps its
// proxies.
//
// The input of a fleet's object is an annotation on it, so that every replica can compare it, and a
// change of leader writes nothing. A new certificate authority, or a new port of a listener, rolls
// no pod.
//
// Tests: go test ./xds/fleet/... (against a cluster in memory); against a real one: make test-lab.
package fleet
