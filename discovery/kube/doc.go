// Package kube reads a cluster into the store, and writes what Penstock says about objects into their status: Penstock on
// Kubernetes. It is the other writer of the tables that discovery/file fills.
//
// A Source follows the API server: kinds.go lists the kinds, one line each; crd.go finds out which of them are installed
// and in what version; watch.go runs a reflector for each; trim.go leaves what translation reads; formerpool.go takes
// InferencePools of their former group for today's; order.go holds back for a moment what one watch tells too early for another;
// feed.go collects what arrives together into one store.Apply; demand.go brings in Secrets, ConfigMaps, Pods and EndpointSlices
// as far as translation reads them. What the API server has as an object's status stays beside the store (live.go), so that writing
// a status is no change of the world.
//
// A Writer (writer.go) keeps statuses as the board has them, on the replica that Lead was called on; discovery/kube/statuses
// says what each kind's status looks like, and leader.go who leads. It also holds GatewayClasses by a finalizer while Gateways
// name them (class.go).
//
// Invariants: nothing reaches the store before every installed kind was listed once. Objects go only when the API server
// says so: a watch that broke, a list that failed or a forbidden kind removes nothing. A kind that is not installed is
// waited for. The client has no rate limit of its own: writes are few because they are collected and compared.
//
// Tests: go test ./discovery/kube/... (against a small API server of their own); against the real one: make test-lab.
package kube
