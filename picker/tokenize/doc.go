// Package tokenize finds the token IDs of text prompts by calls to a model server: vLLM's
// /v1/chat/completions/render and /v1/completions/render apply the chat template and the tokenizer,
// and run no model. Package picker calls Tokens before it ranks.
//
// Invariants: a pick waits for the call, so calls have deadlines, few calls run at a time, and
// after several failures in a row a pool's servers are not called for a while. Results are cached
// by the hash of the prompt's text.
package tokenize
