// Package modelserver simulates a vLLM server without a model or a GPU: it has vLLM's HTTP
// endpoints, queue, KV cache, LoRA slots and metrics. Its answers contain the server's name and
// repeat the prompt. `penstock sim`, the demo and tests use it.
//
// At most MaxNumSeqs requests run at a time; further requests wait in order. Each request reserves
// KV cache blocks for its prompt and its longest possible answer. At most MaxLoRAs adapters are
// active. Each word is one token, whose ID is the word's hash, or the number itself if the word is
// a number. With StepTime, the engine serves in steps (steps.go). With prefix caching, a cached
// prefix takes no time to read. The server does not implement preemption, sampling, several prompts
// or answers in one request, and stored responses.
//
// Invariants: the same prompt gets the same text. A request that ends, in any way, releases its
// slot and its blocks.
package modelserver
