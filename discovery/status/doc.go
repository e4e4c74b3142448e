// Package status collects the reports of Penstock's packages about users' objects, and publishes
// them: in the status file, on the page /status, in the tables of "penstock status", and on
// Kubernetes in the objects' statuses. A Board collects reports by source;
// cmd/penstock/internal/app fills it.
//
// Invariants: of two sources that report a condition of the same type on one object, the later
// source in sources.go wins. The lastTransitionTime of a condition changes only with its status: a
// restart does not change it. The status file is replaced atomically, and only when it changes.
package status
