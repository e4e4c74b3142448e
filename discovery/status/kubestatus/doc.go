// Package kubestatus writes the status of Kubernetes objects: it compares the board's report about
// an object with the status on the API server and sends the difference. cmd/penstock/internal/app
// runs Lead on the process that discovery/kube/leader elects.
//
// Invariants: only Lead writes. An object is written only if its status differs. The write is one
// merge patch of the fields that differ; it fails if the object has changed since the comparison. A
// status describes the translated generation, never a newer one. Writing a status changes nothing
// in the store.
package kubestatus
