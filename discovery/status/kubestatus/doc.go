// Package kubestatus writes the status of Kubernetes objects: it compares the board's report about
// an object with the status on the API server and sends the difference.
//
// A Writer gets reports from discovery/status (the board), the current status from discovery/kube,
// and each kind's status format from discovery/status/shape. cmd/penstock/internal/app constructs
// it, calls Observe after each translation and runs Lead on the process that discovery/kube/leader
// elects. writer.go decides which objects to compare and when (pace.go spaces the writes to one
// object) and retries them, patch.go builds and sends one patch, proxies.go collects the input of
// shape.Programmed, addresses.go computes a Gateway's addresses, class.go delays the deletion of
// GatewayClasses by a finalizer, follow.go follows the board and contains panics.
//
// Invariants: only Lead writes. An object is written only if its status differs. The write is one
// merge patch of the fields that differ; it fails if the object has changed since the comparison. A
// status describes the translated generation, never a newer one. Writing a status changes nothing
// in the store.
//
// Tests: go test ./discovery/status/kubestatus (against the API server of discovery/kube/kubetest);
// against a real one: cd conformance && go test -tags lab ./promises/apiserver.
package kubestatus
