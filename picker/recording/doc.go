// Package recording writes picked requests as a trace: a JSON line each, without prompts, in the
// form of Mooncake's public traces with more members. Package simulation reads it (penstock
// replay).
//
// A File is bounded: at half of its bytes, it becomes FILE.1, replacing an older one. Run writes
// the lines, not picks; when it does not keep up, lines are dropped and counted.
//
// Invariants: hashes of prompts are keyed with a random number of the process, so a guess of a
// prompt cannot be tested with a trace; Add neither blocks nor writes.
//
// Package picker makes the lines. Tests: go test ./picker/recording
package recording
