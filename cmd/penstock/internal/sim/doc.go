// Package sim is a model server without a model: vLLM's endpoints, queue, KV cache, LoRA slots and
// metrics, without a GPU. Its answers name the server and repeat the prompt, so that users and
// tests see which server served.
//
// Its callers are `penstock sim`, the demo, and tests, which use a Server as an http.Handler in
// their own process.
//
// Simulated: at most MaxNumSeqs requests run, the others wait in order. With MaxPrefills, at most
// so many of them read their prompt. Each reserves blocks of the KV cache for its prompt and its
// longest answer, and waits until they are free. At most MaxLoRAs adapters are active; a request
// for another one waits, and later requests may overtake it. A word is a token: a word's token is
// its hash, and a number's is the number. With a step time, the engine serves in steps as
// picker/simulation's servers do (steps.go).
//
// With prefix caching, full blocks of prompts stay, the least recently used are evicted first, and
// a cached prefix costs no time. KV events are published as vLLM does.
//
// A request may bring the token IDs of its prompt: as token_ids in its body, or as the key of a
// token store (tokens.go).
//
// The APIs: chat completions, completions and responses of OpenAI and Anthropic's messages, each an
// api in its own file that generate serves; embeddings and rerank, whose inputs run as a request
// each.
//
// Not simulated: preemption, sampling. Several prompts of a completion, or several answers, get
// 400. Responses are not stored.
//
// Invariants: the same prompt gives the same text; a request that ends, in any way, releases
// everything that it held.
//
// Tests: go test ./cmd/penstock/internal/sim
package sim
