// Package kvevents reads the KV events of model servers (vLLM, SGLang): picks then use the prompt
// prefixes that a server reports as cached. Package picker owns the Subscriber; package prefix
// keeps the results.
//
// A message has a topic, a sequence number and a batch of events in MessagePack. After a gap in the
// sequence, the Subscriber queries the server's replay endpoint. If a gap remains, it drops all
// reports of the server. It computes the keys of blocks from the tokens in the events, because the
// engines' own hashes may have different seeds. If a server has several KV cache groups, only
// events of group 0 count.
//
// Invariants: invalid events affect only the picks of their own server. Each server's message size,
// connections, blocks and message rate are bounded. Goroutines run only inside Run.
package kvevents
