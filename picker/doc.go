// Package picker is the endpoint picker (EPP): it tells Envoy, request by request, which model server of an InferencePool
// shall answer.
//
// One Picker serves many pools. Package cmd fills it with plain data (SetPools, Update, Remove), registers it on a gRPC
// server made with ServerOptions, and runs it. A gateway names the pool in the initial metadata of its ext_proc call
// (x-penstock-pool); one that names none gets the default pool.
//
// The way of a request: extproc reads the message, Pick (pick.go) ranks the pool's endpoints by its schedule.Strategy,
// opens a lease in the endpoint.Ledger, and extproc writes the answer. The gateway's access log (feedback) settles the
// lease and says who served.
//
// Invariants:
//   - Picks lock no pool: configuration is an immutable snapshot behind an atomic pointer.
//   - Whoever is charged for a request is relieved of it once: by feedback, by the stream's end for gateways that send no
//     access log, or by the lease's timeout.
//   - The header and the metadata of an answer are the same text.
//   - The package knows neither Kubernetes objects nor xDS; it meets the rest of penstock in Pool and Learner.
//
// Tests: go test ./picker/... ; those on the real Envoy need it at $ENVOY, in .tools/bin or on PATH.
package picker
