// Package memorytest writes models that have a size and no content, for tests of memory.
//
// Tests: go test ./discovery/engine/memory
package memorytest
