// Package upstreamtest has a model server for tests of calls made with package upstream. A server
// ends with its test.
package upstreamtest
