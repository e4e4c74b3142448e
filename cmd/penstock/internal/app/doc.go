// Package app puts the parts together: files into the store, the store through translation into the cache of each
// gateway and into the picker, reports into the status file. Subcommands that serve (up, serve, demo) make one App
// and run it; translate and explain use its offline half. On Kubernetes (kubernetes.go) a cluster takes the files' place,
// and the objects' own statuses that of the file.
//
// Data flows one way, in one goroutine from the store on (translate.go): store -> Translator -> picker, cache, board. What
// comes back comes as objects in the store (multicluster/learned) or as reports on the board.
//
// Invariants: no proxy is answered before all sources are read and translated once. The picker forgets an endpoint before
// Envoy does, and learns of one after Envoy did, so that a pick never names what its cluster does not have.
//
// Tests: go test ./cmd/penstock/internal/app; the whole is driven by the tests in cmd/penstock.
package app
