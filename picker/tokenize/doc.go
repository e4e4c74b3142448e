// Package tokenize finds the token IDs of prompts that are text, by asking a model server: vLLM's
// /v1/chat/completions/render and /v1/completions/render apply the chat template and the tokenizer,
// and run nothing. Penstock has no tokenizer of its own.
//
// A pick waits for it, so everything is bounded: a call ends with its deadline, few run at a time,
// larger bodies are not sent, and after several failures of a pool in a row its servers are left
// alone for a while. Without tokens a pick goes by what was sent to each server. Prompts are kept
// by the hash of their text, as hashes and not as tokens.
//
// Package picker calls Tokens before it ranks. Tests: go test ./picker/tokenize.
package tokenize
