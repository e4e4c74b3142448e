// Package memory estimates the memory of accelerators that a model server needs when it starts,
// from the headers of the model's files. discovery/engine/deployment makes the Settings of a
// deployment, and cmd/penstock/internal/deployments compares a Need with the devices.
//
// Read (read.go) reads the facts of a model: a GGUF (gguf.go), or a folder with safetensors
// (safetensors.go) and config.json (config.go). Estimate (estimate.go) is pure.
//
// An estimate is the least that is certain: weights, and the cache of keys and values for one
// context. Activations, graphs and fragments are not in it. So a server that needs less than its
// accelerators have may fail nevertheless, and one that needs more never fits. A model of an
// unknown architecture, a file with an unknown type, and an unknown setting have no estimate.
//
// Invariants: headers are read within bounds of bytes, entries, files and depth, whatever a file
// announces. No sum overflows. A file that is damaged, cut or hostile has no estimate.
//
// Tests: go test ./discovery/engine/memory, also with -fuzz FuzzGGUF or -fuzz FuzzSafetensors.
package memory
