// Package kube reads the objects of a Kubernetes cluster into the store, as discovery/file reads
// files. A Source follows the API server with a reflector for each kind (kinds.go). Source.Live and
// Source.Patch are for discovery/status/kubestatus, which writes statuses.
//
// Invariants: no object reaches the store before every installed kind has been listed once. An
// object is removed only after the API server reported its deletion: a broken watch, a failed list
// or a forbidden kind removes nothing. A kind that is installed later is followed from then on. The
// client has no rate limit, because its callers combine writes, and omit writes that change
// nothing.
//
// Tests against a real API server: make test-lab.
package kube
