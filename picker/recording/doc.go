// Package recording writes picked requests to a trace: one line of JSON for each request, without
// prompts. The format is Mooncake's, with further members. Package picker makes the lines; package
// simulation reads them.
//
// Invariants: a File has a maximum size; its older half is in FILE.1. Hashes of prompts are keyed
// with a random number, so that no reader of a trace can test a guess of a prompt. File.Add never
// blocks: if Run is too slow, Add drops lines and counts them.
package recording
