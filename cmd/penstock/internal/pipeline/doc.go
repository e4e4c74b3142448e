// Package pipeline leads changes from the store to proxies, picker and status: it translates each
// revision and passes the result to package delivery, all in one goroutine.
//
//	translation.go   the translator, which explanations read while changes write
//	pipeline.go      the goroutine
//	watchdog.go      detects a translation that is stuck
//	fetch.go         objects that are read on demand, on Kubernetes
//
// Feedback comes as objects of the store (multicluster/learned) or as reports on the board.
//
// Invariants: no proxy receives a response before all sources are read and translated once.
// Afterwards the goroutine waits for nothing but the next revision: a row that reads an object
// which is still being fetched waits by itself, and keeps its last value.
//
// Tests: go test ./cmd/penstock/internal/pipeline; the tests in cmd/penstock drive the whole.
package pipeline
