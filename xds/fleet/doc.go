// Package fleet runs a Gateway's proxies on Kubernetes: it keeps a Deployment of Envoys with all that belongs to it for each
// Gateway of ours (render says what that is, cluster applies it), and says at which addresses they are reached.
//
// cmd/penstock tells it with Set, after each translation, which Gateways there are and how their proxies run; Run, on the
// replica that leads, makes it so. Authorize, on every replica, says which Gateway a proxy may serve: identity asks it.
// drain runs inside the pods; authority makes the certificates by which they know the control plane.
//
// Invariants: an object is written only if it differs from what is there. Nothing is deleted before Set was called and all
// objects were listed, and never what does not belong to a Gateway that is there; what belongs to one that has gone,
// Kubernetes collects. A Gateway that is not accepted keeps the proxies that it has.
//
// Tests: go test ./fleet/... (against a cluster in memory); against a real one: make test-lab.
package fleet
