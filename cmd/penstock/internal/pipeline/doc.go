// Package pipeline translates each revision of the store, and passes the result to package
// delivery, which changes proxies, picker and status. One goroutine does all of this.
//
//	translation.go   the translator, which explanations read while changes write
//	pipeline.go      the goroutine
//	watchdog.go      detects a translation that is stuck
//	fetch.go         objects that are read on demand, on Kubernetes
//
// Feedback arrives as objects of the store (multicluster/learned) or as reports on the board.
//
// Invariants: no proxy receives a response before all sources are read and translated once.
// Afterwards the goroutine only waits for the next revision. A row that reads an object which is
// still being fetched keeps its last value, and is translated when the object arrives.
//
// Tests: go test ./cmd/penstock/internal/pipeline; the tests in cmd/penstock drive the whole.
package pipeline
