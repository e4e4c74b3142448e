// Package upstreamtest has a model server for tests of calls by package upstream.
//
// Invariants: a server ends with its test.
//
// Tests: it has none; run go test ./picker/upstream
package upstreamtest
