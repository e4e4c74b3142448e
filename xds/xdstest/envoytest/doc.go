// Package envoytest runs the real Envoy in a test of any package. Without an Envoy the test fails.
// The admin interface is always a socket in a separate directory, so any number of Envoys run side
// by side.
package envoytest
