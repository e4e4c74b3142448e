// Package simulation simulates a pool of model servers in virtual time, to compare picking
// strategies.
//
// A Scenario is a workload (requests with arrival times), servers, a strategy and conditions: how
// metrics pages are read, how many pickers share the work and publish to each other, and when a
// further server joins. Run plays a Scenario and returns an Outcome for each request: its server,
// the cached part of its prompt, its first byte and its end.
//
//	clock.go     virtual time
//	server.go    a model server: steps, admission, preemption, adapters  cache.go   its KV blocks and prefix cache
//	request.go   requests, and the tree of their prompts' blocks  trace.go, workload.go   sources of requests
//	strategy.go  the interface and the table of strategies  production.go   the strategies of picker/schedule
//	rivals.go    other routers, restated from documentation         books.go   a picker's records of picks
//	run.go       a scenario                                      summary.go, trials.go   many scenarios
//
// The servers are modeled on vLLM: continuous batching with chunked prefill, a paged KV cache whose
// free blocks are its prefix cache (least recently used first), recomputation after preemption,
// slots for adapters. The headers of a stream are sent once its prompt is tokenized, before the
// prompt is read; the headers of other responses come at the end. Blocks have 512 tokens, as in
// Mooncake's public traces. Not modeled: prefill and decode on different servers, failures of
// single servers, networks within a cluster.
//
// Invariants:
//   - Runs are deterministic: equal scenarios give equal outcomes on any machine. No code reads a
//     clock or a global random source.
//   - The strategies of picker/schedule run as production code: schedule.Strategy on
//     endpoint.Snapshot and prefix.Index. They learn no more and no earlier than a picker behind
//     Envoy.
//   - Rivals are favored: they learn first bytes and ends at once.
//
// conformance/bench has the figures (make bench-picker); the command is `penstock replay`.
//
// Tests: go test ./picker/simulation.
package simulation
