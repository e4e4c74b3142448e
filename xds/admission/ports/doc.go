// Package ports opens the listeners of all programs. Each kind of listener is a Port, a row of All:
// its clients, the share of the process's file descriptors for its connections, and the test that
// attacks it. A client that opens connections without end thus leaves descriptors for the other
// ports, for scraping, and for files.
//
// Commands call Port.Listen, and servers wrap the listener with Limit before they serve.
//
// Invariants: no other package of the product opens a socket (a test looks for calls); all ports
// together leave a fifth of the descriptors; each port has limits, and a test in
// conformance/promises/attacks.
//
// Tests: go test ./xds/admission/ports
package ports
