// Package upstreamtest has HTTP servers for tests of calls with package upstream. A server ends
// with its test.
package upstreamtest
