// Package ports opens the listeners of all programs. Each kind of listener is a Port: a row of All
// with who connects, how many of the process's file descriptors its connections may use, and the
// test that attacks it. So a client that opens connections without end leaves descriptors for the
// other ports, for scraping, and for files.
//
// Commands call Port.Listen, and servers wrap what it returns with Limit before they serve.
//
// Invariants: no other package of the product opens a socket (a test looks for calls); the shares
// of all ports together leave a fifth of the descriptors; each port has limits, and a test in
// conformance/promises/attacks.
//
// Tests: go test ./cmd/internal/ports
package ports
