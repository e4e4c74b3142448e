// Package shape defines the status of each kind. discovery/kube calls Take on every object that it
// reads, to get the current status. discovery/status/kubestatus calls Make, which makes the new
// status from a report and the current status, and writes the result if it differs.
//
// Invariants: entries with another controllerName, and conditions with another project's domain in
// their type, are kept in their order. A condition's lastTransitionTime changes only with its
// status. A status that describes a later generation than the report is kept. The same input gives
// an equal status.
package shape
