// Package simulation simulates a pool of model servers in virtual time, to compare picking
// strategies. Run plays a Scenario and returns an Outcome for each request. `penstock replay` and
// conformance/bench (make bench-picker) use it.
//
// The simulated servers work like vLLM: continuous batching with chunked prefill, a paged KV cache
// whose free blocks are its prefix cache, recomputation after preemption, and slots for adapters.
// The simulation has no prefill and decode on different servers, no failures of single servers, and
// no networks within a cluster.
//
// Runs are deterministic: no code reads a clock or a global random source. The strategies of
// picker/schedule run with their production code, and receive events no earlier than a picker
// behind Envoy. Rivals receive a response's begin and end at once.
package simulation
