// Package picker is the endpoint picker (EPP): for each request it names the model servers of an
// InferencePool that Envoy shall use.
//
// One Picker serves many pools. Package cmd configures it with plain data (SetPools, Update,
// Remove), registers it on a gRPC server made with ServerOptions, and runs it. A gateway names the
// pool in the initial metadata of its ext_proc call (x-penstock-pool); one that names none gets the
// default pool.
//
// The path of a request: extproc reads the wire, and a pick is one value that passes a table of
// stages (stages.go), each in a file of its name: admit, read, rewrite, wake, find, recall,
// hold, process, restrict, prompt, score, rank, lease, spill, answer, note. How endpoints are
// ranked and taken is in choose.go and take.go, for the stages that do. What a pick chooses among
// is its target (target.go): the model servers of a pool, such servers with sessions (session.go),
// the clusters of an import (clusters.go, stays.go), a remote picker (relay.go). Where the
// responses are that servers keep is in responses.go. The gateway's access log (accesslog) reports
// every 2 s that the request goes on and which endpoint serves it, which renews and moves the
// lease, and at last its end, which releases it (track.go).
//
// The strategies of model servers are in schedule. Where servers publish KV events (Pool.KVEvents),
// kvevents keeps what they have cached in prefix, and a pick whose prompt is known as token IDs
// goes by that. A pool may have servers of several roles (endpointpicker.Disagg): disagg.go chooses
// one to read a request's prompt and others to encode its images, beside the one that the request
// is sent to, and names them in headers; dynamo.go names the workers of Dynamo.
//
// A server whose requests get no token is silent (endpoint): silence.go probes it with a request of
// its own, by onetoken.
//
// Invariants:
//   - Picks lock no pool: configuration is an immutable snapshot behind an atomic pointer.
//   - The stages run in one order, whatever the target; a stage that ends a pick skips to answer
//     and note.
//   - What a pick has taken before its answer is the gateway's ends in one place, settle
//     (stages.go), also after a panic.
//   - Each lease is released exactly once: by the access log, by its timeout when no report comes
//     any more, or by the end of the ext_proc stream for gateways that send no access log.
//   - A limit of requests in flight holds for all processes together (confirm.go), except while one
//     of them does not answer its peers.
//   - The header and the metadata of a pick hold the same text.
//   - The package uses neither Kubernetes objects nor xDS. Its interface to the rest of penstock is
//     Pool and the interfaces of Config.
//
// Tests: go test ./picker/... ; those on the real Envoy need it at $ENVOY, in .tools/bin or on
// PATH.
package picker
