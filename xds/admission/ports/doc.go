// Package ports opens the listeners of all programs. Each kind of listener is a Port in All, with
// its share of the process's file descriptors: a client that opens connections without end leaves
// descriptors for other work. Servers wrap the listener of Port.Listen with Limit.
//
// Invariants: no other package of the product opens a socket (a test looks for calls). All ports
// together leave a fifth of the descriptors. Each port has limits, and a test in
// conformance/promises/attacks.
//
// Tests: go test ./xds/admission/ports
package ports
