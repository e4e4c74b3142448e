// Package recording writes picked requests as a trace: one line of JSON for each, without prompts.
// The form is that of Mooncake's public traces, with more members. Package simulation reads it
// (penstock replay).
//
// A File is bounded. At half of its bytes, it is renamed to FILE.1, which replaces an older FILE.1.
// Run writes the lines, not picks. If Run is too slow, lines are dropped and counted.
//
// Invariants: hashes of prompts are keyed with a random number of the process, so a trace cannot be
// used to test a guess of a prompt. Add neither blocks nor writes.
//
// Package picker makes the lines. Tests: go test ./picker/recording
package recording
