// Package envoytest runs the real Envoy in a test: it finds the binary, starts it with a bootstrap,
// reads its admin interface, logs its output if the test fails, and ends it with the test.
//
// Any package's tests may use it. The admin interface is always a socket in a directory of the
// test's own, whatever the bootstrap has, so that any number of Envoys run side by side.
//
// A test fails if there is no Envoy; none is skipped.
package envoytest
