// Package file reads folders of YAML and JSON into the store: Penstock without Kubernetes.
//
// It owns the way from bytes to stored objects: splitting files into documents, converting old
// forms, defaulting and validating with the kinds' own schemas (structural and CEL), and decoding.
// cmd makes a Reader and calls Load (offline use) or Run (Load, then following changes). Mistakes
// in files go to Config.Report as findings with file, line, object, field, problem and fix; no
// mistake of a user is an error of this package.
//
// The stages of one file: read.go finds it, document.go splits it, parse.go makes values of it,
// draft.go takes each object through conversion, schema.go validates (fastvalidation for valid
// objects, explain.go for the others), claims.go decides which of several definitions of an object
// is in use, and state.go persists that one. watch.go starts again at each change. sentinel.go
// detects changes made while files are read. disk.go bounds every operation of a file system.
//
// Each kind has one file, kind_NAME.go, and one line in kinds.go.
//
// Invariants:
//   - An invalid document never delays another one.
//   - An object whose newest definition is invalid keeps its last good form, over restarts too. It
//     is removed only when its definition is removed.
//   - Of two definitions of one object, the first by file path and line is in use.
//   - A file that never ends, a link in a circle, a folder of a million files and a file system
//     that does not answer are findings; they delay no other file beyond filesystem.Timeout, and no
//     end of the process.
//   - Files that change together are one store.Apply, and the store only ever holds what the files
//     held at one moment: a route never appears before a backend that was written first.
//     Modification times decide nothing.
//
// Tests: go test ./discovery/file; go test -fuzz FuzzDocument_YieldsObjectOrFinding
// -fuzzminimizetime 1x ./discovery/file
package file
