// Package memorytest writes model files for tests of package memory. The files have a header, but
// no weights.
//
// Tests: go test ./discovery/engine/memory
package memorytest
