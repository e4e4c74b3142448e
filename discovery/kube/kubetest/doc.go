// Package kubetest is a small API server for tests. It supports lists, watches, merge patches with
// preconditions, finalizers, and Leases. It validates objects only after a call of Reject or
// Strict. It has no CRDs at first. A dry run stores nothing. Applied objects are merged as patches,
// without field managers.
//
// Invariants: resource versions are numbers that grow with each write, over all kinds. A write is
// in the queues of all watches before the server responds to it.
package kubetest
