// Package recording writes picked requests as a trace: one line of JSON for each request, without
// prompts. The format is Mooncake's, with more members. Package picker makes the lines; package
// simulation reads them.
//
// Invariants: a File is bounded; its older half is in FILE.1. Hashes of prompts are keyed with a
// random number, so a trace cannot be used to test a guess of a prompt. File.Add never blocks: if
// Run is too slow, lines are dropped and counted.
package recording
