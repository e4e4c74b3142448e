// Package pipeline is the one way of data from objects to proxies, picker and status: it follows
// the store, translates each revision, and hands the result to package delivery, all in one
// goroutine.
//
//	translation.go   the translator, which explanations read while changes write
//	pipeline.go      the goroutine
//	watchdog.go      notices a translation that is stuck
//	fetch.go         objects that are read on demand, on Kubernetes
//
// What comes back comes as objects of the store (multicluster/learned) or as reports on the board.
//
// Invariants: no proxy is answered before all sources are read and translated once. Afterwards the
// goroutine waits for nothing but the next revision: what reads an object that is still to be
// fetched waits by itself, and keeps its last value.
//
// Tests: go test ./cmd/penstock/internal/pipeline; the whole is driven by the tests in
// cmd/penstock.
package pipeline
