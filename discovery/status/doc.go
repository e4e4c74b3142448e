// Package status holds everything that is shown about an object, from every part of Penstock, and
// publishes it: the status file, the page /status, the tables of "penstock status", and on
// Kubernetes the objects' own statuses.
//
// A Board (board.go) collects reports by source; sources.go is the ordered table of sources, which
// decides whose condition wins. cmd/penstock/internal/app fills it from translation, the file
// reader, proxies and the supervisor. Readers take it whole (List) or by object (Get) and wait with
// a WatchSet; a Feed streams the objects that changed; Stream emits a Document after each change. A
// Writer keeps the status file; Page serves the same to penstock status; Text prints it. Below this
// package, report has the types, kubestatus writes to the API server, and shape defines each kind's
// status.
//
// Invariants: of two sources that report a condition of the same type on one object, the later one
// in sources.go wins, so that a proxy's NACK stands over what translation expects. Lists are
// sorted. A condition's lastTransitionTime moves only when its status does, also over restarts. The
// status file is replaced atomically, and only when it changes.
//
// The board is a go-memdb (schema.go): a walk over its one large index meets objects in order and,
// of each, the winning source last. It holds pointers to reports, and takes 360 bytes a report more
// than a map (BenchmarkBoard_Memory). With 5,000 routes, whose pools and servers have reports too,
// that is 5.5 MiB of live heap and 10 to 13 MiB of resident memory.
//
// Tests: go test ./discovery/status
package status
