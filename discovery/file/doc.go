// Package file reads folders of YAML and JSON into the store: Penstock without Kubernetes.
//
// It owns the way from bytes to stored objects: splitting files into documents, converting old forms, defaulting and
// validating with the kinds' own schemas (structural and CEL), and decoding. cmd builds a Reader and calls Load (offline
// use) or Run (which loads, then follows changes). What is wrong goes to Config.Report as findings with file, line,
// object, field, problem and fix; nothing that a user writes is an error of this package.
//
// The way of one file: read.go finds it, document.go splits it, parse.go makes values with positions of it, draft.go takes
// an object through conversion, schema.go (quick.go for what is right, words.go for what is not) and decoding, claims.go
// decides which object of which file counts, state.go keeps what counts on disk, watch.go begins again at each change, and
// fence.go tells whether anything changed meanwhile.
//
// Adding a kind is one small file, kind_NAME.go, and one line in kinds.go.
//
// Invariants: a document that is wrong never holds up another. An object whose newest text is wrong keeps its last good
// form, over restarts too; it goes only when its text goes. Of two documents with one identity the first by file path and
// line counts. All that changed together is one store.Apply, and what it leaves in the store stood in the files at one
// moment: who writes a backend before the route to it is never read the other way round. No time of any file decides
// anything.
//
// Tests: go test ./discovery/file; go test -fuzz FuzzDocument -fuzzminimizetime 1x ./discovery/file
package file
