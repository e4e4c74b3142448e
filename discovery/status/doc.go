// Package status brings together what every part of Penstock says about an object, and writes it down for people and
// scripts: one status file, in the shapes of the Gateway API, and the tables of "penstock status".
//
// A Board collects reports by source (cmd fills it from translation, the file reader, the xDS server and the supervisor);
// a Writer keeps the file; Read and Text are what the command line shows. The Kubernetes writer reads the same Board.
//
// Invariants: on one object a later source (Files, Translation, Supervisor, then proxies) has the last word on a condition of the same type, so that a proxy's
// NACK stands over what translation thought. Everything is sorted. A condition's lastTransitionTime moves only when its
// status does, over restarts too. A file is replaced in one piece, and only when something in it changed.
//
// Tests: go test ./discovery/status
package status
