// Package channel is publish/subscribe between Penstock processes. The processes that serve the
// same Envoys exchange facts that are in no file and no API server: small items, each with a key,
// grouped into topics. Each process publishes its own items on the port of its ADS and subscribes
// to those of its peers, which it is given by address.
//
// A Topic publishes (Publish, Retract) and delivers what peers publish (Subscribe). A Mirror is the
// usual subscriber: it keeps the decoded values of a topic as peer -> key -> value and reports
// changes. Topics in use:
//
//	learned   endpoints that remote pickers named (multicluster/learned): key "POOL ADDRESS", no value, a time to live
//	names     the endpoints that a process's picker names: key is the pool, value a digest
//	proxies   how many Envoys of a Gateway are connected to a process: key is the Gateway, value a decimal number
//	acked     what those Envoys have acknowledged: key is the Gateway, value the generation and a digest of the listeners
//	nacks     the NACKs of an Envoy: key is the Envoy, value the encoded reports
//	entries   access log entries of requests that another process picked for: key is a number, value a list; for some seconds
//	loads     a process's requests in flight at each endpoint, and their prompts: key is the address, value a list of numbers;
//	          its picker's name, as the key "owner"; its last claim, and its answers to those of others (cmd/penstock/internal/peers/loads.go)
//	picks     the prompts and adapters that a process's picks have sent to servers: key is a number, value a list; for a second. Its
//	          snapshot has the prefixes that each server has cached: key is the address
//	pages     what metrics pages of model servers show: key is a number, value a list; for a fifth of a second
//	sessions  the endpoints of sessions: key is a number, value a list; for a second. Its snapshot has those that were used last
//	hosts     addresses of host names that a process has found to have changed: key is the name, value a list; for some seconds
//	questions which picks a process asks for: key is a random text, value the selection; until its answers have arrived
//	answers   those that a process has made: key is that of the question, value a list of records
//	relays    why picks of a remote picker fail: key is the pool, value the encoded report
//
// The wire format is one gRPC stream with the messages of delta xDS. A request names a topic
// (type_url). A response carries items (resources, with ttl) and retracted keys
// (removed_resources). The subscriber acknowledges a response once its items are in effect, so
// Topic.Acknowledged can wait for all peers. A large response is sent in parts, which take effect
// together (parts.go). The first response of a topic is a snapshot (all that is published, and what
// Topic.Snapshot adds). In a topic that resumes, the first request of a stream after a lost one
// names what the subscriber has, with versions (initial_resource_versions), and the response has
// what differs: a lost connection between clusters costs what has changed. A subscriber never
// writes to a publisher: a process trusts the peers that it dials, which prove their identity if
// Config.Credentials demand it. A stream ends at both ends when a certificate of its connection
// expires, and the subscriber connects again (expiry.go).
//
// A peer that disconnects retracts nothing. What that means for its values is the subscriber's
// choice: an Update has Disconnected set, and a Mirror has a Retention, which is finite between
// processes of one control plane and KeepForever between clusters.
//
// Invariants: each subscriber has at most one response in flight per topic, and items published
// meanwhile collapse; no call waits longer than Config.AckTimeout for a peer that does not
// acknowledge; an address that turns out to be the process itself is ignored, so all processes can
// be given one list; a subscriber receives no item that Topic.Visible hides from it; an item with
// an invalid key (Topic.Keys) is dropped as its message arrives, and the rest of its response has
// effect; no peer makes the process hold more than Config.Limits, nor more than maxSubscribers
// streams and their requests.
//
// # What profiles taught
//
// A publication costs what it publishes. Each subscriber had all items of a topic walked over at
// each publication: with 100 members that export 100 pools each, this was a third of an idle
// importer's CPU. A topic keeps its last edits (edits.go). A subscriber that may receive none of
// them is not woken.
//
// Tests: go test ./multicluster/channel
package channel
