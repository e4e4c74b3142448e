// Package kube reads a cluster into the store. It is the counterpart of discovery/file. A Source
// follows the API server with a reflector for each kind (kinds.go). Source.Live and Source.Patch
// serve discovery/status/kubestatus, which writes statuses.
//
// Invariants: no object reaches the store before every installed kind was listed once. An object is
// removed only after the API server reported that it is gone: a broken watch, a failed list or a
// forbidden kind removes nothing. A kind that is installed later is followed from then on. The
// client has no rate limit: its callers combine writes, and omit writes that change nothing.
//
// Tests against a real API server: make test-lab.
package kube
