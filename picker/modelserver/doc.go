// Package modelserver simulates a model server without a model or a GPU: it has vLLM's endpoints,
// queue, KV cache, LoRA slots and metrics. Its answers name the server and repeat the prompt.
// `penstock sim`, the demo and tests use it.
//
// At most MaxNumSeqs requests run; the others wait in order. Each request reserves KV cache blocks
// for its prompt and its longest answer. At most MaxLoRAs adapters are active. Each word is a
// token; its ID is the word's hash, or the word if it is a number. With StepTime, the engine serves
// in steps (steps.go). With prefix caching, a cached prefix takes no time to read. Preemption,
// sampling, several prompts or answers, and stored responses are not implemented.
//
// Invariants: the same prompt gives the same text; a request that ends, in any way, releases
// everything that it held.
package modelserver
