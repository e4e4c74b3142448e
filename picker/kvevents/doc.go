// Package kvevents reads model servers' KV events, so that picks use the prompt prefixes that a
// server reports as cached, instead of the prompts sent to it. vLLM and SGLang publish KV events at
// a ZeroMQ PUB socket.
//
// A Subscriber has a source for each model server whose pool subscribes. It dials the server's
// publisher (subscriber.go), or accepts connections of publishers that dial (listen.go). A message
// is a topic, a sequence number of 8 bytes and a batch in MessagePack (decode.go). stream.go
// follows the sequence. After a gap it queries the server's replay endpoint (source.go). If a gap
// remains, it drops all reports of the server. A publisher drops some messages of a long replay;
// they are requested again.
//
// tree.go maps the engine's hash of a block to the block's place in a prompt. Its keys are computed
// from the events' tokens, never from the engine's hashes, so servers may have different hash
// seeds. Where a block of prefix.Chain ends in a block of the engine, prefix.Server holds the key.
// The key covers adapters, cache salts and other extra keys of a block. A block counts as cached
// while at least one medium has it. For engines with several KV cache groups, only group 0 counts.
//
// loads.go reads SGLang's load, which has the same framing, from another socket.
//
// A server is prefix.Reported while all of its events are known, either since its publisher's first
// event or since its cache was cleared. It is prefix.Partly if earlier events are missing, and
// prefix.Guessed after ten seconds without a connection. Subscription.Problem returns the reason.
//
// Invariants:
//   - Bad events only harm their server: its reports are dropped, its connection ends, and the
//     pauses before the next connection grow. Dialing publishers may have 32 connections per
//     address; a connection that ends early counts for 5 s more. A dialing publisher is matched to
//     servers by its own IP address; its topic only selects among the servers at this address.
//   - Messages have at most 16 MiB. At most 16 large messages are read at a time, and 4 per
//     address. A server may send 8 MiB a second. All servers together have Config.Blocks blocks; a
//     block beyond this bound does not count as cached.
//   - Decoding allocates nothing for tokens and hashes.
//   - Goroutines run only inside Run.
//
// Package picker owns the Subscriber; package prefix keeps the results. Tests: go test
// ./picker/kvevents; FuzzStream_Survives sends broken batches.
package kvevents
