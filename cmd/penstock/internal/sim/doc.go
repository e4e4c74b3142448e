// Package sim is a model server without a model: the OpenAI endpoints, the queue, the KV cache and the LoRA slots of a
// vLLM, with vLLM's metrics, on a machine without a GPU. Its answers say which server gave them and repeat the prompt,
// so that a person or a test sees what went where.
//
// Its callers are `penstock sim`, the demo, and tests, which use a Server as an http.Handler in their own process.
//
// What is simulated: at most MaxNumSeqs requests run, the others wait in order; each takes blocks of the KV cache for its
// prompt and its longest answer, and waits while they are taken; at most MaxLoRAs adapters are active, and a request for
// one more waits while those behind it may pass. A word is a token. What is not: prefix caching, preemption, sampling,
// several prompts or answers in one request (refused with 400, not ignored).
//
// Invariants: the same prompt gives the same text; a request that ends, by whatever way, gives back all that it held.
//
// Tests: go test ./cmd/penstock/internal/sim
package sim
