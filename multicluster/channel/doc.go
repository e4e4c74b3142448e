// Package channel is publish/subscribe between Penstock processes, for facts that neither files nor
// the API server hold: requests in flight, prompts, sessions, metrics pages, NACKs and others. Each
// process publishes its items on its ADS port, and subscribes to the other processes, its peers. A
// Topic publishes items and delivers peers' items. A Mirror keeps a topic's decoded values as peer
// -> key -> value.
//
// The wire format is one gRPC stream of delta xDS. A request names a topic (type_url). A response
// has items (resources, with ttl) and the keys of retracted items. The first response of a topic is
// a snapshot; a topic that resumes sends only the differences after a lost stream. The subscriber
// acknowledges a response once its items are in effect. A lost connection retracts no items.
//
// Each subscriber has at most one response in flight per topic. No call waits longer than
// Config.AckTimeout for an acknowledgement. Config.Limits and maxSubscribers bound the memory and
// the streams of a peer.
package channel
