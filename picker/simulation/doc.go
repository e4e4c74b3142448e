// Package simulation simulates a pool of model servers in virtual time, to compare picking
// strategies.
//
// A Scenario is a workload (requests with arrival times), servers, a strategy and conditions: how
// metrics pages are read, how many pickers share the work and publish to each other, a server that
// joins. Run plays it and returns an Outcome per request: its server, cached part of the prompt,
// first byte and end.
//
//	clock.go     virtual time
//	server.go    a model server: steps, admission, preemption, adapters  cache.go   its KV blocks and prefix cache
//	request.go   requests, and the tree of their prompts' blocks  trace.go, workload.go   where they come from
//	strategy.go  the interface and the table of strategies  production.go   the strategies of picker/schedule
//	rivals.go    other routers, re-stated from documentation        books.go   a picker's knowledge of its own picks
//	run.go       a scenario                                                  summary.go, trials.go   many of them
//
// The servers are modelled on vLLM: continuous batching with chunked prefill, a paged KV cache
// whose free blocks are its prefix cache (least recently used first), recomputation after
// preemption, slots for adapters. A stream's headers come once its prompt is tokenized, before it
// is read; without streaming they come at the end. Blocks have 512 tokens, as in Mooncake's public
// traces. Not modelled: prefill and decode on different servers, failures of single servers,
// networks within a cluster.
//
// Invariants:
//   - Deterministic: equal scenarios give equal outcomes on any machine. Nothing reads a clock or a
//     global random source.
//   - The strategies of picker/schedule run as production code: schedule.Strategy on
//     endpoint.Snapshot and prefix.Index. They learn no more and no earlier than a picker behind
//     Envoy.
//   - Rivals get the benefit of the doubt: they learn first bytes and ends at once.
//
// conformance/bench has its figures (make bench-picker), and `penstock replay` its command. Tests:
// go test ./picker/simulation.
package simulation
