// Package picker is the endpoint picker (EPP): for each request it chooses the model servers of an
// InferencePool for Envoy. Package cmd configures a Picker with plain data (SetPools, Update,
// Remove), registers it on a gRPC server made with ServerOptions, and runs it.
//
// The path of a request: extproc reads the wire, and a pick passes a table of stages (stages.go),
// each in a file with its name. choose.go ranks and take.go leases. A pick has a target
// (target.go): a pool's model servers, model servers with sessions (session.go), the clusters of an
// import (clusters.go, stays.go), or a remote picker (relay.go). The gateway's access log renews,
// moves and releases the pick's lease (track.go). Package schedule has the strategies. If a pool
// has no server and Config.OnDemand starts one, the request waits for it (stage_resume.go).
//
// Invariants:
//   - Picks lock no pool: configuration is an immutable snapshot behind an atomic pointer.
//   - The stages run in one order for every target. A stage that ends a pick skips to answer and
//     note.
//   - Only settle (stages.go) releases the resources of a pick whose answer was not given to the
//     gateway, even after a panic.
//   - Each lease is released exactly once: by the access log, by its timeout, or, for gateways
//     without an access log, by the end of the ext_proc stream.
//   - A limit of requests in flight holds for all processes together (confirm.go).
//   - Each pick of a pool's servers counts in Use until its lease counts or the pick ends. So a
//     pool that accepts no picks and has an Active of 0 has no request.
//   - The package uses neither Kubernetes objects nor xDS.
package picker
