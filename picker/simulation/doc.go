// Package simulation simulates a pool of model servers in virtual time, to compare picking
// strategies. Run plays a Scenario and returns an Outcome for each request. `penstock replay` and
// conformance/bench (make bench-picker) use it.
//
// The servers are modeled on vLLM: continuous batching with chunked prefill, a paged KV cache whose
// free blocks are its prefix cache, recomputation after preemption, and slots for adapters. Not
// modeled: prefill and decode on different servers, failures of single servers, networks within a
// cluster.
//
// Runs are deterministic: no code reads a clock or a global random source. The strategies of
// picker/schedule run as production code, and learn no more and no earlier than a picker behind
// Envoy. Rivals learn first bytes and ends at once.
package simulation
