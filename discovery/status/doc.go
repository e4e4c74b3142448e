// Package status collects the reports of all parts of Penstock about objects and publishes them: in
// the status file, on the page /status, in the tables of "penstock status", and on Kubernetes in
// the objects' own statuses.
//
// A Board (board.go) collects reports by source; sources.go ranks the sources.
// cmd/penstock/internal/app fills it from translation, the file reader, proxies and the supervisor.
// Readers call List or Get and wait with a WatchSet; a Feed streams the objects that changed;
// Stream emits a Document after each change. A Writer writes the document to the status file; Page
// serves it to "penstock status"; Text prints it. Package report has the types of reports,
// kubestatus writes statuses to the API server, and shape defines the status of each kind.
//
// Invariants: of two sources that report a condition of the same type on one object, the later one
// in sources.go wins, so that a proxy's NACK overrides translation. Lists are sorted. The
// lastTransitionTime of a condition changes only with its status: a restart does not change it. The
// status file is replaced atomically, and only when it changes.
//
// The board is a go-memdb (schema.go) of pointers to reports. Each report takes 360 bytes more than
// in a map (BenchmarkBoard_Memory): with 5,000 routes, 5.5 MiB of live heap and 10 to 13 MiB of
// resident memory.
//
// Tests: go test ./discovery/status
package status
