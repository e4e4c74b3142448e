// Package channel is publish/subscribe between Penstock processes, for facts that are in no file
// and no API server. Each process publishes its items on its ADS port, and subscribes to the other
// processes, its peers. A Topic publishes items and delivers peers' items. A Mirror keeps a topic's
// decoded values as peer -> key -> value. Topics, with their keys and values:
//
//	learned    endpoints that remote pickers named: key "POOL ADDRESS", with a time to live
//	names      endpoints that a process's picker names: pool -> digest
//	proxies    connected Envoys: Gateway -> number
//	acked      state that Envoys acknowledged: Gateway -> generation and digest
//	nacks      NACKs: Envoy -> reports
//	entries    access log entries of requests that another process picked for: number -> list
//	loads      requests in flight, and their prompts: address -> numbers; also claims (peers/loads.go)
//	picks      prompts and adapters sent to servers: number -> list; the snapshot has cached prefixes
//	pages      metrics pages of model servers: number -> list
//	sessions   endpoints of sessions: number -> list; the snapshot has the last used sessions
//	hosts      changed addresses of host names: name -> list
//	questions  requests for picks: random text -> selection
//	answers    answers to questions: key of the question -> records
//	relays     why picks of a remote picker fail: pool -> report
//
// The wire format is one gRPC stream with the messages of delta xDS. A request names a topic
// (type_url). A response has items (resources, with ttl) and retracted keys. The first response of
// a topic is a snapshot; a topic that resumes sends only the differences after a lost stream. The
// subscriber acknowledges a response once its items are in effect. A disconnection retracts no
// items.
//
// Each subscriber has at most one response in flight per topic. No call waits longer than
// Config.AckTimeout for an acknowledgement. Config.Limits and maxSubscribers bound the memory and
// the streams of a peer.
package channel
