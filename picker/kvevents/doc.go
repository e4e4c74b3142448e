// Package kvevents reads the KV events of model servers (vLLM, SGLang), so that picks use the
// prompt prefixes that a server reports as cached. Package picker owns the Subscriber; package
// prefix keeps the results.
//
// An event's message is a topic, a sequence number and a batch in MessagePack. After a gap in the
// sequence, the Subscriber queries the server's replay endpoint. If a gap remains, it drops all
// reports of the server. Keys of blocks are computed from the events' tokens, not from the engine's
// hashes, so servers may have different hash seeds. Of several KV cache groups, only group 0
// counts.
//
// Invariants: bad events only harm their server. The size of messages, the connections, the blocks
// and the rate of each server are bounded. Goroutines run only inside Run.
package kvevents
