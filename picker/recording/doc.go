// Package recording writes the requests that were picked for as a trace: a JSON line each, without
// prompts, in the form of Mooncake's public traces and with more members. Package simulation reads
// it (penstock replay).
//
// A File is bounded: when it has half of its bytes, it becomes FILE.1, in place of an older one.
// Lines are written by Run and not by picks; when it does not keep up, lines are dropped and
// counted.
//
// Invariants: hashes of prompts are keyed with a random number of the process, so no one can test a
// guess of a prompt by a trace; Add neither blocks nor writes.
//
// Package picker makes the lines. Tests: go test ./picker/recording
package recording
