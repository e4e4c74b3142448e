// Package shape defines what the status of each kind looks like: pure functions from a report and
// the current status to the status that the object should have.
//
// ByKind (kinds.go) is the table: one Shape for each kind that gets a status. discovery/kube calls
// Take on every object that it reads; discovery/status/kubestatus calls Make and writes the result
// if it differs. To add a kind, add its line to ByKind.
//
// Invariants: entries with another controllerName, and conditions whose type has a domain of
// another project, stay as they are and keep their order. A condition's lastTransitionTime moves
// only when its status does. A status that describes a later generation than the report is left
// alone. The same input gives an equal status, so nothing is written twice.
//
// Tests: go test ./discovery/status/shape
package shape
