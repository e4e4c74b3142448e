// Package channel is publish/subscribe between Penstock processes. They exchange facts that are in
// no file and no API server: small items with keys, grouped into topics. Each process publishes its
// items on its ADS port and subscribes to the other processes, its peers, at their addresses.
//
// A Topic publishes (Publish, Retract) and delivers peers' items (Subscribe). A Mirror is the usual
// subscriber: it keeps the decoded values of a topic as peer -> key -> value and reports changes.
// Topics in use, with their keys, values and times to live:
//
//	learned    endpoints that remote pickers named (multicluster/learned): key "POOL ADDRESS",
//	           no value, a time to live
//	names      endpoints that a process's picker names: key is the pool, value a digest
//	proxies    number of a Gateway's Envoys that are connected to a process: key is the Gateway
//	acked      state that a Gateway's Envoys acknowledged: key is the Gateway, value the generation and
//	           a digest of the listeners
//	nacks      NACKs: key is the Envoy, value the encoded reports
//	entries    access log entries of requests that another process picked for: key is a number,
//	           value a list; for some seconds
//	loads      requests in flight by endpoint, and their prompts: key is the address, value a
//	           list of numbers; also pickers' names and claims (peers/loads.go)
//	picks      prompts and adapters that were sent to servers: key is a number, value a list; for a
//	           second. The snapshot has the prefixes that each server caches, by the server's address
//	pages      metrics pages of model servers: key is a number, value a list; for 0.2 s
//	sessions   endpoints of sessions: key is a number, value a list; for a second. The snapshot
//	           has the most recently used sessions
//	hosts      changed addresses of host names: key is the name, value a list; for some seconds
//	questions  requests for picks: key is a random text, value the selection; until answered
//	answers    answers to questions: key is the question's key, value a list of records
//	relays     why picks of a remote picker fail: key is the pool, value the encoded report
//
// The wire format is one gRPC stream with the messages of delta xDS. A request names a topic
// (type_url). A response has items (resources, with ttl) and retracted keys (removed_resources).
// The subscriber acknowledges a response once its items are in effect (Topic.Acknowledged). Parts
// of a large response take effect together (parts.go). The first response of a topic is a snapshot:
// all published items, and the items of Topic.Snapshot. In a topic that resumes, the first request
// after a lost stream names the subscriber's items with versions (initial_resource_versions), and
// the response has only the differences. A subscriber never writes to a publisher. A process trusts
// the peers that it dials; they prove their identity if Config.Credentials demand it. When a
// certificate of a connection expires, both ends end the stream, and the subscriber reconnects
// (expiry.go).
//
// A disconnection retracts no items. The subscriber decides how long it uses them: it receives an
// Update with Disconnected, and a Mirror has a Retention.
//
// Invariants: each subscriber has at most one response in flight per topic; the next one has all
// items published meanwhile. No call waits longer than Config.AckTimeout for an acknowledgement. A
// process ignores its own address. A subscriber receives no item that Topic.Visible hides. An item
// with an invalid key (Topic.Keys) is dropped alone. Config.Limits and maxSubscribers bound the
// memory and the streams of a peer.
//
// # Measurements
//
// Walking over all items of a topic for each publication and subscriber took a third of an idle
// importer's CPU with 100 members that export 100 pools each. So a topic keeps its last edits
// (edits.go), and notifies only subscribers that may receive one of these edits.
//
// Tests: go test ./multicluster/channel
package channel
