// Package kvevents reads model servers' KV events, so that picks use the prompt prefixes that a
// server has cached instead of the ones sent to it. vLLM and SGLang publish KV events at a ZeroMQ
// PUB socket.
//
// A Subscriber has a source for each model server whose pool subscribes. It dials the server's
// publisher (subscriber.go), or accepts a publisher that dials (listen.go). A message is a topic, a
// sequence number of 8 bytes and a batch in MessagePack (decode.go). stream.go follows the
// sequence: after a gap it queries the server's replay endpoint (source.go), and drops all reports
// of the server if that does not help. A publisher drops messages of a long replay; the rest is
// requested again.
//
// tree.go maps the engine's hash of a block to its place in a prompt. Its keys are computed from
// the events' tokens, never from the engine's hashes, so servers may have different hash seeds.
// Where a block of prefix.Chain ends in a block of the engine, prefix.Server holds the key.
// Adapters, cache salts and other extra keys of a block are part of it. A block counts as cached
// while one medium has it. For engines with several KV cache groups, only group 0 counts.
//
// loads.go reads SGLang's load, in the same framing from its own socket.
//
// A server is prefix.Reported while all of its events are known: since its publisher's first one,
// or since its cache was cleared. It is prefix.Partly if earlier events are missing, and
// prefix.Guessed after ten seconds without a connection. Subscription.Problem returns the reason.
//
// Invariants:
//   - Bad events only harm their server: its reports are dropped, its connection ends, and the
//     pauses before the next one grow. One address may have 32 connections of dialing publishers,
//     and a short one counts for 5 s more. A dialing publisher is matched to servers by its own IP
//     address; its topic only selects among these.
//   - Messages, blocks and rates are bounded: 16 MiB, 16 large ones at a time and 4 per address,
//     Config.Blocks of all servers, 8 MiB a second per server. A block beyond its bound counts as
//     not cached.
//   - Decoding allocates nothing for tokens and hashes.
//   - Goroutines run only inside Run.
//
// Package picker owns the Subscriber; package prefix has the result. Tests: go test
// ./picker/kvevents; FuzzStream_Survives feeds broken batches.
package kvevents
