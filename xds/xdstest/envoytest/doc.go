// Package envoytest runs the real Envoy in a test: it finds the binary, starts it with a bootstrap,
// reads its admin interface, logs its output if the test fails, and ends it with the test.
//
// Any package's tests may use it. The admin interface is always a socket in a separate directory,
// regardless of the bootstrap, so that any number of Envoys run side by side.
//
// Without an Envoy a test fails.
package envoytest
