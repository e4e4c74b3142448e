// Package ports opens the listeners of all programs. Each kind of listener has its share of the
// process's file descriptors, so a client that opens connections without end leaves descriptors for
// other work.
//
// Invariants: no other package of the product opens a socket (a test looks for calls). All ports
// together leave a fifth of the descriptors. Each port has a test in conformance/promises/attacks.
//
// Tests: go test ./xds/admission/ports
package ports
