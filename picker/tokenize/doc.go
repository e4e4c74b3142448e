// Package tokenize finds the token IDs of text prompts by calls to a model server: vLLM's
// /v1/chat/completions/render and /v1/completions/render apply the chat template and the tokenizer,
// and run no model. Penstock has no tokenizer.
//
// A pick waits for the call, so everything is bounded: calls have deadlines, few run at a time,
// larger bodies are not sent, and after several failures in a row a pool's servers are not called
// for a while. Picks without token IDs use the prompts sent to each server. Results are cached by
// the hash of the prompt's text, as hashes, not as token IDs.
//
// Package picker calls Tokens before it ranks. Tests: go test ./picker/tokenize.
package tokenize
