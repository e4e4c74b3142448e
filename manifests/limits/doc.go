// Package limits checks Go values against the schemas of the CRDs in manifests/crds. An API server
// validates an object as a whole, so a writer checks each part of it that comes from somewhere else
// before it writes them together.
//
// Schema.Check walks a Go value beside the schema, and takes some microseconds. The API
// server's own libraries need a decoded JSON object, and some 50 times as long. What a value is in
// JSON follows from the tags of its type, as in encoding/json.
//
// Invariants: Check accepts what those libraries accept of the JSON form of the value, and nothing
// else, with two exceptions: strings that are not UTF-8, which JSON cannot have, are invalid, and
// types that encode themselves, such as metav1.Time, are not checked. New returns an error for a
// schema with a keyword that Check does not know. A Schema is immutable and safe for concurrent
// use.
//
//	limits.go   Schema, New and Check      compile.go   a schema and a Go type, made one
//
// Tests: go test ./manifests/limits. TestCheck_AgreesWithTheAPIServersLibraries compares both.
package limits
