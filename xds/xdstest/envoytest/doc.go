// Package envoytest runs the real Envoy in a test: it finds the binary, starts it on a bootstrap, answers through its
// admin interface, shows its log if the test fails, and ends it with the test.
//
// Any package's tests may use it. The admin interface is always a socket in a directory of the test's own, whatever
// the bootstrap says, so that any number of Envoys run side by side.
//
// A test that cannot find Envoy fails: nothing is skipped.
package envoytest
