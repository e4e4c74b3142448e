// Package ports opens all listeners. Each kind of listener has a share of the process's file
// descriptors, so a client that opens many connections leaves descriptors for other work.
//
// Invariants: no other package of the product opens a socket (a test looks for calls). All ports
// together leave a fifth of the descriptors. Each port has a test in conformance/promises/attacks.
//
// Tests: go test ./xds/admission/ports
package ports
