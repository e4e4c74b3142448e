// Package channel is publish/subscribe between Penstock processes. Processes that serve the same
// Envoys exchange facts that are in no file and no API server: small items with keys, grouped into
// topics. Each process publishes its items on its ADS port and subscribes to its peers by their
// addresses.
//
// A Topic publishes (Publish, Retract) and delivers peers' items (Subscribe). A Mirror is the usual
// subscriber: it keeps the decoded values of a topic as peer -> key -> value and reports changes.
// Topics in use:
//
//	learned    endpoints that remote pickers named (multicluster/learned): key "POOL ADDRESS",
//	           no value, a time to live
//	names      endpoints that a process's picker names: key is the pool, value a digest
//	proxies    number of a Gateway's Envoys connected to a process: key is the Gateway
//	acked      state acknowledged by these Envoys: key is the Gateway, value the generation and
//	           a digest of the listeners
//	nacks      NACKs: key is the Envoy, value the encoded reports
//	entries    access log entries of requests that another process picked for: key is a number,
//	           value a list; for some seconds
//	loads      requests in flight by endpoint, and their prompts: key is the address, value a
//	           list of numbers; also pickers' names and claims (peers/loads.go)
//	picks      prompts and adapters sent to servers: key is a number, value a list; for a
//	           second. The snapshot has the prefixes that each server has cached, by address
//	pages      metrics pages of model servers: key is a number, value a list; for 0.2 s
//	sessions   endpoints of sessions: key is a number, value a list; for a second. The snapshot
//	           has the sessions used last
//	hosts      changed addresses of host names: key is the name, value a list; for some seconds
//	questions  requests for picks: key is a random text, value the selection; until answered
//	answers    answers to questions: key is the question's, value a list of records
//	relays     why picks of a remote picker fail: key is the pool, value the encoded report
//
// The wire format is one gRPC stream with the messages of delta xDS. A request names a topic
// (type_url). A response has items (resources, with ttl) and retracted keys (removed_resources).
// The subscriber acknowledges a response once its items are in effect, so Topic.Acknowledged can
// wait for all peers. Parts of a large response take effect together (parts.go). The first response
// of a topic is a snapshot: all published items, and the items of Topic.Snapshot. In a topic that
// resumes, the first request after a lost stream names the subscriber's items with versions
// (initial_resource_versions), and the response has the differences, so a lost connection between
// clusters costs only the changes. A subscriber never writes to a publisher: a process trusts the
// peers that it dials, which prove their identity if Config.Credentials demand it. A stream ends at
// both ends when a certificate of its connection expires, and the subscriber reconnects
// (expiry.go).
//
// A peer that disconnects retracts nothing. The subscriber decides about its values: an Update has
// Disconnected set, and a Mirror has a Retention.
//
// Invariants: each subscriber has at most one response in flight per topic, and items published
// meanwhile collapse. No call waits longer than Config.AckTimeout for an acknowledgement. A process
// ignores its own address, so all processes can have one list. A subscriber receives no item that
// Topic.Visible hides. An item with an invalid key (Topic.Keys) is dropped when its message
// arrives; the rest of the response has effect. No peer makes the process hold more than
// Config.Limits, nor more than maxSubscribers streams and their requests.
//
// # Measurements
//
// The cost of a publication depends on its items. Walking over all items of a topic for each
// subscriber took a third of an idle importer's CPU with 100 members that export 100 pools each. So
// a topic keeps its last edits (edits.go), and a subscriber that may receive none of them is not
// woken.
//
// Tests: go test ./multicluster/channel
package channel
