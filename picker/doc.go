// Package picker is the endpoint picker (EPP): for each request it chooses the model servers of an
// InferencePool for Envoy.
//
// One Picker serves many pools. Package cmd configures it with plain data (SetPools, Update,
// Remove), registers it on a gRPC server made with ServerOptions, and runs it. A gateway names the
// pool in the initial metadata of its ext_proc call (x-penstock-pool). A gateway that names no pool
// gets the default pool.
//
// The path of a request: extproc reads the wire, and a pick passes a table of stages (stages.go),
// each in a file with its name: admit, read, rewrite, wake, find, recall, hold, process, restrict,
// prompt, score, rank, lease, spill, answer, note. Ranking and leasing are in choose.go and
// take.go. A pick has a target (target.go): a pool's model servers, model servers with sessions
// (session.go), the clusters of an import (clusters.go, stays.go), or a remote picker (relay.go).
// responses.go tracks stored responses. Every 2 s the gateway's access log (accesslog) reports that
// the request continues and which endpoint serves it; this renews and moves the lease. Finally it
// reports the end, which releases the lease (track.go).
//
// Package schedule has the strategies for model servers. If servers publish KV events
// (Pool.KVEvents), kvevents keeps their cached blocks in prefix, for picks with known token IDs. In
// a pool with several roles (endpointpicker.Disagg), disagg.go chooses further servers: one to read
// the prompt, and others to encode images. It names them in headers; dynamo.go names Dynamo's
// workers. A server whose requests get no token is silent (endpoint); silence.go probes such a
// server with a request of its own, by onetoken.
//
// Invariants:
//   - Picks lock no pool: configuration is an immutable snapshot behind an atomic pointer.
//   - The stages run in one order for every target. A stage that ends a pick skips to answer and
//     note.
//   - Only settle (stages.go) releases the resources of a pick whose answer was not given to the
//     gateway, even after a panic.
//   - Each lease is released exactly once: by the access log, by its timeout when reports stop, or,
//     for gateways without an access log, by the end of the ext_proc stream.
//   - A limit of requests in flight holds for all processes together (confirm.go), except while a
//     process does not answer its peers.
//   - A pick's header and metadata have the same text.
//   - The package uses neither Kubernetes objects nor xDS. Its interface to the rest of penstock is
//     Pool and the interfaces in Config.
//
// Tests: go test ./picker/... ; some run the real Envoy at $ENVOY, in .tools/bin or on PATH.
package picker
