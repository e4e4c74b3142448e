// Package app constructs the parts of a process and runs them. It has no logic of its own: what happens to a change is in
// package pipeline and package delivery, what processes exchange in package peers.
//
// Each role is a constructor. NewFolder serves a folder of files (up, serve, demo), NewKubernetes the objects of a cluster
// (serve), NewOffline translates files without running anything (translate, diff, explain).
//
//	config.go       what the roles need
//	core.go         the parts of every role          offline.go      the role that runs nothing
//	app.go          the parts of every role that serves, and Run
//	folder.go       a folder of files                kubernetes.go   a cluster        fleets.go   that runs proxies
//	security.go     who may connect, and how peers are dialled
//	pages.go        metrics, health, status, explain     explain.go   one request through everything
//	serving.go      when a Gateway is served, for supervisors
//	listeners.go, memory.go, metrics.go
//
// Invariants: nothing starts before Run; nothing is set after construction; no proxy is answered before all sources are
// read and translated once.
//
// Tests: go test ./cmd/penstock/internal/app; the whole is driven by the tests in cmd/penstock.
package app
