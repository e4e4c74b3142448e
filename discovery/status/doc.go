// Package status collects the reports of all parts of Penstock about objects and publishes them: in
// the status file, on the page /status, in the tables of "penstock status", and on Kubernetes in
// the objects' statuses. A Board collects reports by source; cmd/penstock/internal/app fills it.
// Package report has the types of reports, kubestatus writes statuses to the API server, and shape
// defines the status of each kind.
//
// Invariants: of two sources that report a condition of the same type on one object, the later
// source in sources.go wins. The lastTransitionTime of a condition changes only with its status: a
// restart does not change it. The status file is replaced atomically, and only when it changes.
//
// The board is a go-memdb of pointers to reports. Each report takes 360 bytes more than in a map
// (BenchmarkBoard_Memory): with 5,000 routes, 5.5 MiB of live heap.
package status
