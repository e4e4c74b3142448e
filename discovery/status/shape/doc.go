// Package shape defines the status of each kind. Pure functions make the new status from a report
// and the current status. discovery/kube calls Take on every object that it reads;
// discovery/status/kubestatus calls Make and writes the result if it differs.
//
// Invariants: entries with another controllerName, and conditions with another project's domain in
// their type, are kept in their order. A condition's lastTransitionTime changes only with its
// status. A status that describes a later generation than the report is kept. The same input gives
// an equal status.
package shape
