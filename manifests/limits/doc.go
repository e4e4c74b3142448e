// Package limits checks Go values against the schemas of the CRDs in manifests/crds. An API server
// validates an object as a whole. So a writer first checks each part that comes from another
// source.
//
// Schema.Check walks a Go value along its schema, which takes some microseconds. The API server's
// libraries need a decoded JSON object, and about 50 times the time. The JSON form of a value
// follows from the tags of its type, as in encoding/json.
//
// Invariants: Check accepts exactly the values whose JSON form those libraries accept, with two
// exceptions. Strings that are not UTF-8, which JSON cannot have, are invalid. Types that encode
// themselves, such as metav1.Time, are not checked. New returns an error for a schema with a
// keyword that Check does not support. A Schema is immutable and safe for concurrent use.
//
//	limits.go   Schema, New and Check      compile.go   combines a schema and a Go type
//
// Tests: go test ./manifests/limits. TestCheck_AgreesWithTheAPIServersLibraries compares both.
package limits
