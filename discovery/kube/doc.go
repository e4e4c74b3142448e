// Package kube reads a cluster into the store: the counterpart of discovery/file, which fills the
// same tables from a folder.
//
// A Source follows the API server:
//
//	kinds.go        the kinds, one line each
//	crd.go          which kinds are installed, in what version
//	watch.go        a reflector for each kind
//	trim.go         removes fields that are not read
//	formerpool.go   converts InferencePools of their former group
//	order.go        briefly holds back objects that arrive before their references
//	debounce.go     combines simultaneous events into one store.Apply
//	demand.go       reads Secrets, ConfigMaps, Pods and EndpointSlices on demand of translation
//	occupants.go    finds the owners of addresses that users wrote
//	lagging.go      records how long a watch is missing
//	undecodable.go  reads only metadata of objects that the Go type cannot hold
//	budget.go       bounds the memory for objects of another operator's API server
//	size.go         bounds the responses of such an API server
//	live.go         keeps statuses outside of the store, so that writing one does not change it
//
// Source.Live and Source.Patch serve discovery/status/kubestatus, which writes statuses.
// discovery/kube/leader elects the process that writes.
//
// Invariants: no object reaches the store before every installed kind was listed once. An object is
// removed only after the API server reported that it is gone: a broken watch, a failed list or a
// forbidden kind removes nothing. A kind that is installed later is followed from then on. The
// client has no rate limit: its callers combine writes, and omit writes that change nothing.
//
// Tests: go test ./discovery/kube/... (against a small API server); against the real one: make
// test-lab.
package kube
