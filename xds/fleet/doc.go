// Package fleet runs the proxies of a Gateway on Kubernetes: for each Gateway of Penstock's
// classes, a Deployment of Envoys and related objects. render builds the objects, apply writes
// them, and drain runs inside the pods. The package also reports the addresses of the proxies.
//
// After each translation cmd/penstock calls Set with the Gateways and their EnvoyFleetSpecs. Run,
// on the leading replica, reconciles their objects. On every replica, Member and Recheck map
// proxies to Gateways for xds/identity.
//
// Invariants: an object is written only if it differs from the object in the cluster. No object is
// deleted before Set was called and all objects were listed. Only objects of an existing Gateway
// are deleted; Kubernetes collects the objects of a deleted Gateway. A Gateway that is not accepted
// keeps its proxies.
//
// Each object of a fleet has a hash of its input as an annotation. Every replica can compare it, so
// a change of the leader causes no writes. A new certificate authority, or a new port of a
// listener, rolls no pod.
//
// Tests: go test ./xds/fleet/... (against a cluster in memory); against a real one: make test-lab.
package fleet
