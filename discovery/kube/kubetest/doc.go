// Package kubetest is a small API server for tests: lists, watches, merge patches with
// preconditions, finalizers, and Leases. It validates only with Reject. It has no CRDs at first. A
// dry run stores nothing. Applied objects are merged as patches, without field managers.
//
// Invariants: resource versions are growing numbers over all kinds; a write is in every watch's
// queue before its response.
package kubetest
