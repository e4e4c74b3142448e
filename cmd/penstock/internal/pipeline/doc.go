// Package pipeline is the one way of data from objects to proxies, picker and status: it follows the store, translates each
// revision, and hands the result to package delivery, all in one goroutine.
//
//	translation.go   the translator, which explanations read while changes write
//	pipeline.go      the goroutine
//	watchdog.go      notices a translation that is stuck
//	fetch.go         objects that are read on demand, on Kubernetes
//
// What comes back comes as objects of the store (multicluster/learned) or as reports on the board.
//
// Invariants: no proxy is answered before all sources are read and translated once.
//
// Tests: go test ./cmd/penstock/internal/pipeline; the whole is driven by the tests in cmd/penstock.
package pipeline
