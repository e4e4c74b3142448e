// Package peers exchanges facts between the processes of one control plane, over
// multicluster/channel. Each topic has a file:
//
//	proxies.go      how many Envoys of each Gateway are connected to a process
//	programmed.go   what those Envoys acknowledged, for the status of Gateways
//	nacks.go        what those Envoys reject, for the status of the objects at fault
//	names.go        the endpoints that a process's picker names
//	relays.go       why picks of a remote picker fail, for the status of imports
//	answers.go      responses of other clusters' gateways, for the status of imports
//	entries.go      access log entries of requests that another process picked for
//	loads.go        requests in flight at each endpoint, their prompts, and times to headers
//	asked.go        the picks that each process made, on request
//	picks.go        the prompts and adapters sent to servers, and servers' caches
//	pages.go        metrics pages of model servers, so that one process reads each
//	sessions.go     the endpoints of sessions with a client's ID, and of stored responses
//	hosts.go        changed addresses of host names
//	batches.go      batches for connected processes only: entries, picks, pages and sessions
//
// So the process that writes status has the facts of all, and no Envoy loses an endpoint that
// another process's picker still names. Package app constructs the parts.
//
// Invariants: every part works without peers. When a peer disconnects, its values are dropped,
// except for NACKs, which stay for nackRetention.
//
// Tests: go test ./cmd/penstock/internal/peers
package peers
