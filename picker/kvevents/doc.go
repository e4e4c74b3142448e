// Package kvevents reads what model servers publish about their KV caches, so that picks go by the
// prompt prefixes that a server has, and not by those that it was sent. vLLM and SGLang publish KV
// events at a ZeroMQ PUB socket.
//
// A Subscriber has a source for each model server whose pool subscribes. It dials the server's
// publisher (dial.go), or accepts the connection of a publisher that dials (listen.go). A message
// is a topic, a sequence number of 8 bytes and a batch in MessagePack (decode.go). stream.go
// follows the sequence: after a gap it asks the server's replay endpoint (source.go), and if that
// does not help, drops all that the server has reported. A publisher drops messages of a long
// replay: the rest is asked for again.
//
// tree.go leads from the engine's hash of a block to its place in a prompt. Its keys are computed
// from the tokens of the events and never from the engine's hashes, so servers may have different
// hash seeds. Where a block of prefix.Chain ends in a block of the engine, prefix.Server holds the
// key. Adapters, cache salts and other extra keys of a block are part of it. A block counts as
// cached while one medium has it. Of engines with several KV cache groups only group 0 counts.
//
// loads.go reads what SGLang publishes of its load in the same framing, at a socket of its own.
//
// A server is prefix.Reported while all of its events are known: since its publisher's first one,
// or since its cache was cleared. It is prefix.Partly if earlier events are missing, and
// prefix.Guessed without a connection for ten seconds. Subscription.Problem returns the reason.
//
// Invariants:
//   - Bad events harm the server alone that sent them: what it reported is dropped, its connection
//     ends, and the next one comes later and later; one address may have 32 connections of
//     publishers that dial, and a short one counts for 5 s more. A publisher that dials is matched
//     to servers by its own IP address; its topic only selects among these.
//   - Messages, blocks and rates are bounded: 16 MiB, 16 large ones at a time and 4 of one address,
//     Limits.Blocks of all servers together, 8 MiB a second of one server. A block beyond its bound
//     counts as not cached.
//   - Decoding allocates nothing for tokens and hashes.
//   - Goroutines run only inside Run.
//
// Package picker owns the Subscriber; package prefix has the result. Tests: go test
// ./picker/kvevents; FuzzStream_Survives feeds broken batches.
package kvevents
