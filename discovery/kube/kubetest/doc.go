// Package kubetest is a small API server for tests: lists, watches (with their initial events, bookmarks and expired
// versions), field selectors by name, merge patches with their precondition, finalizers, and Leases. It validates nothing and
// has no CRDs of its own: a test creates them like any object.
//
// Invariants: resource versions are numbers that grow, of all kinds together; a write reaches every watch before it is
// answered. What a test needs to break can be broken: Cut ends all watches, Fail answers requests with an error.
// Run runs, until the test ends, what talks to it; conformance/promises/apiserver uses that with the real one.
//
// Tests: go test ./discovery/kube
package kubetest
