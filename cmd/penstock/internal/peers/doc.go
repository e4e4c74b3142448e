// Package peers holds what the processes of one control plane exchange through
// multicluster/channel, one file a topic:
//
//	proxies.go      how many Envoys of each Gateway are connected to a process
//	programmed.go   what those Envoys have acknowledged, for the status of Gateways
//	nacks.go        what those Envoys reject, for the status of the objects at fault
//	names.go        the endpoints that a process's picker names
//	relays.go       why picks of a remote picker fail, for the status of imports
//	answers.go      what gateways of other clusters answer, for the status of imports
//	entries.go      access log entries of requests that another process picked for
//	loads.go        the requests in flight at each endpoint, their prompts, and how long headers take there
//	asked.go        which picks each process has made, when one is asked for them
//	picks.go        the prompts and adapters that picks have sent to servers, and what each server has cached
//	pages.go        what the metrics pages of model servers show, so that one process reads each
//	sessions.go     where sessions are whose ID a client chose, and responses that servers keep
//	hosts.go        addresses of host names that have changed
//	batches.go      publishes what matters to connected processes alone: entries, picks, pages and sessions
//
// So the process that writes status knows what each of them knows, and no Envoy loses an endpoint
// that the picker of another process still names. Package app constructs the parts.
//
// Invariants: every part works alone, without peers; a peer that disconnects takes its values
// along, except for NACKs, which stay for nackRetention.
//
// Tests: go test ./cmd/penstock/internal/peers
package peers
