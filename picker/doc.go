// Package picker is the endpoint picker (EPP): for each request it chooses the model servers of an
// InferencePool for Envoy.
//
// One Picker serves many pools. Package cmd configures it with plain data (SetPools, Update,
// Remove), registers it on a gRPC server made with ServerOptions, and runs it. A gateway sends the
// pool in the initial metadata of its ext_proc call (x-penstock-pool); without it, it gets the
// default pool.
//
// The path of a request: extproc reads the wire, and a pick passes a table of stages (stages.go),
// each in a file of its name: admit, read, rewrite, wake, find, recall, hold, process, restrict,
// prompt, score, rank, lease, spill, answer, note. Ranking and leasing are in choose.go and
// take.go. A pick chooses among its target (target.go): a pool's model servers, such servers with
// sessions (session.go), the clusters of an import (clusters.go, stays.go), or a remote picker
// (relay.go). responses.go tracks stored responses. The gateway's access log (accesslog) reports
// every 2 s that the request goes on and which endpoint serves it, which renews and moves the
// lease, and finally its end, which releases it (track.go).
//
// Package schedule has the strategies of model servers. If servers publish KV events
// (Pool.KVEvents), kvevents keeps their cached blocks in prefix, for picks with known token IDs. In
// a pool with several roles (endpointpicker.Disagg), disagg.go chooses a server to read the prompt
// and others to encode images, besides the main one, and names them in headers; dynamo.go names
// Dynamo's workers. A server whose requests get no token is silent (endpoint); silence.go probes it
// with its own request, by onetoken.
//
// Invariants:
//   - Picks lock no pool: configuration is an immutable snapshot behind an atomic pointer.
//   - The stages run in one order for every target; a stage that ends a pick skips to answer and
//     note.
//   - settle (stages.go) alone releases a pick's resources before its answer is the gateway's, also
//     after a panic.
//   - Each lease is released exactly once: by the access log, by its timeout without reports, or by
//     the end of the ext_proc stream for gateways without an access log.
//   - A limit of requests in flight holds for all processes together (confirm.go), except while a
//     process does not answer its peers.
//   - A pick's header and metadata have the same text.
//   - The package uses neither Kubernetes objects nor xDS. Its interface to the rest of penstock is
//     Pool and the interfaces of Config.
//
// Tests: go test ./picker/... ; some run the real Envoy at $ENVOY, in .tools/bin or on PATH.
package picker
