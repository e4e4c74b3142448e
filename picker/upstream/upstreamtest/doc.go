// Package upstreamtest has a model server for tests of calls made with package upstream.
//
// Invariants: a server ends with its test.
//
// Tests: none; run go test ./picker/upstream
package upstreamtest
