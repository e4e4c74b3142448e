// Package modelserver simulates a model server without a model or a GPU: it has vLLM's endpoints,
// queue, KV cache, LoRA slots and metrics. Its answers name the server and repeat the prompt, so
// that users and tests see which server answered. Its callers are `penstock sim`, the demo, and
// tests.
//
// At most MaxNumSeqs requests run; the others wait in order. At most MaxPrefills of the running
// requests read their prompt. Each request reserves KV cache blocks for its prompt and its longest
// answer, and waits until they are free. At most MaxLoRAs adapters are active; a request for
// another adapter waits, and later requests may overtake it. Each word is a token; its ID is the
// word's hash, or the word if it is a number. With StepTime, the engine serves in steps (steps.go).
//
// With prefix caching, full blocks of prompts stay in the cache until they are evicted, the least
// recently used first. A cached prefix takes no time to read. KV events are published as vLLM does.
// A request may contain token IDs (tokens.go).
//
// Each API that generates text is an api in a file of its own; embeddings and rerank run each input
// as a request. Preemption, sampling, several prompts or answers, and stored responses are not
// implemented.
//
// Invariants: the same prompt gives the same text; a request that ends, in any way, releases
// everything that it held.
//
// Tests: go test ./picker/modelserver
package modelserver
