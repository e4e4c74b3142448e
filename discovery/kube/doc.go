// Package kube reads a cluster into the store: the counterpart of discovery/file, which fills the
// same tables from a folder.
//
// A Source follows the API server: kinds.go lists the kinds, one line each; crd.go finds out which
// of them are installed and in what version; watch.go runs a reflector for each; trim.go removes
// from objects what is not read; formerpool.go converts InferencePools of their former group;
// order.go holds back an object for a moment if one watch delivers it before another watch delivers
// what it refers to; debounce.go combines events that arrive together into one store.Apply;
// demand.go fetches Secrets, ConfigMaps, Pods and EndpointSlices as far as translation reads them;
// occupants.go finds out whose the addresses are that users wrote; lagging.go records for how long
// a watch is missing; undecodable.go lets one object that the Go type cannot hold hide no other
// one; budget.go bounds the memory of the objects of an API server that another person runs, and
// size.go its responses. The status that the API server has of an object is kept beside the store
// (live.go), so that writing a status does not change the store.
//
// Source.Live and Source.Patch serve discovery/status/kubestatus, which writes statuses.
// discovery/kube/leader elects the process that writes.
//
// Invariants: nothing reaches the store before every installed kind was listed once. An object is
// removed only after the API server reported that it is gone: a watch that broke, a list that
// failed or a forbidden kind removes nothing. A kind that is not installed is waited for. The
// client has no rate limit of its own: writes are few because they are collected and compared.
//
// Tests: go test ./discovery/kube/... (against a small API server of their own); against the real
// one: make test-lab.
package kube
