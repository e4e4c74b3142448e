// Package modelserver is a model server without a model: vLLM's endpoints, queue, KV cache, LoRA
// slots and metrics, without a GPU. Its answers name the server and repeat the prompt, so that
// users and tests see which server served. Its callers are `penstock sim`, the demo, and tests.
//
// At most MaxNumSeqs requests run, the others wait in order. With MaxPrefills, at most so many read
// their prompt. Each reserves blocks of the KV cache for its prompt and its longest answer, and
// waits until they are free. At most MaxLoRAs adapters are active; a request for another one waits,
// and later requests may overtake it. A word is a token: its hash, or the number if it is one. With
// a step time, the engine serves in steps (steps.go).
//
// With prefix caching, full blocks of prompts stay, the least recently used are evicted first, and
// a cached prefix costs no time. KV events are published as vLLM does. A request may bring token
// IDs (tokens.go).
//
// Each API that generates text is an api in its own file; embeddings and rerank run each input as a
// request. Preemption, sampling, several prompts or answers, and stored responses are missing.
//
// Invariants: the same prompt gives the same text; a request that ends, in any way, releases
// everything that it held.
//
// Tests: go test ./picker/modelserver
package modelserver
