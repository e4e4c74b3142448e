// Package memory estimates, from the headers of a model's files, how much memory of accelerators a
// model server needs when it starts. discovery/engine/deployment makes the Settings of a
// deployment, and discovery/engine/controller compares the Need with the devices.
//
// Read (read.go) reads the properties of a model from a GGUF file (gguf.go), or from a folder with
// safetensors (safetensors.go) and config.json (config.go). Estimate (estimate.go) computes the
// Need from them.
//
// An estimate is the least memory that a server certainly needs: the weights, and the cache of keys
// and values for one context. It does not include activations, graphs and fragmentation. So if the
// estimate exceeds the memory of the accelerators, the server cannot start. If it does not, the
// server may still fail. There is no estimate for an unknown architecture, data type or setting.
//
// Invariants: the bytes, entries, files and nesting of headers that are read are bounded, whatever
// a file announces. No sum overflows. There is no estimate for a damaged, truncated or hostile
// file.
//
// Tests: go test ./discovery/engine/memory, also with -fuzz FuzzGGUF or -fuzz FuzzSafetensors.
package memory
