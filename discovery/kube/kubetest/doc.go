// Package kubetest is a small API server for tests: lists, watches (with initial events, bookmarks
// and expired versions), field selectors by name, merge patches with preconditions, applied objects
// (merged as patches, without field managers), finalizers, and Leases. It validates only with
// Reject. It has no CRDs at first: a test creates them like any object. A dry run stores nothing.
//
// Invariants: resource versions are growing numbers over all kinds; a write is in every watch's
// queue before its response. Tests inject failures: Cut ends all watches, Fail makes requests fail.
// Run runs clients until the test ends; conformance/promises/apiserver uses it with a real API
// server. Follow runs a kube.Source on a server, for tests of discovery/kube and of its users.
//
// Tests: go test ./discovery/kube
package kubetest
