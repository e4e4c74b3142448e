// Package tokenize finds the token IDs of text prompts by calls to a model server. vLLM's
// /v1/chat/completions/render and /v1/completions/render apply the chat template and the tokenizer
// without running the model. Package picker calls Tokens before it ranks endpoints.
//
// Invariants: a pick waits for the call, so calls have deadlines, and few calls run at a time.
// After several failures in a row, the servers of a pool are not called for a while. Results are
// cached by the hash of the prompt's text.
package tokenize
