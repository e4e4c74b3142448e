// Package kubetest is a small API server for tests: lists, watches (with their initial events,
// bookmarks and expired versions), field selectors by name, merge patches with their precondition,
// applied objects (merged as patches, without field managers), finalizers, and Leases. It validates
// what a test has it validate (Reject), and has no CRDs of its own: a test creates them like any
// object. A dry run stores nothing.
//
// Invariants: resource versions are numbers that grow, of all kinds together; a write is in every
// watch's queue before it is answered. Tests inject failures: Cut ends all watches, Fail makes
// requests fail. Run runs clients of the server until the test ends; conformance/promises/apiserver
// uses it with a real API server. Follow runs a kube.Source on a server: the set-up of the tests of
// discovery/kube and of those that write through it.
//
// Tests: go test ./discovery/kube
package kubetest
