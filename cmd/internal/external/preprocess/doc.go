// Package preprocess is the program `penstock-external processor`: POST /process, as
// picker/processor calls it. It tokenizes the prompt of a request, has a worker chosen if the
// request has "route": true, and stores the token IDs if there is a token store.
//
//	{"request_body": {...}, "headers": {...}} -> {"worker_address": "...", "token_key": "..."} or {"worker_address": "...", "token_value": "[1,15043]"}
//
// The text that is tokenized has a line for each message (prompt.go): a stand-in for a model's chat
// template. The caller brings the tokenizer. A model whose server consumes these token IDs needs
// its own tokenizer and template, and so another program.
//
// The router and the store are asked at the same time. A failure of the router leaves
// worker_address out, and the endpoint picker schedules; a failure of the store puts the token IDs
// into token_value. A request that cannot be tokenized gets 4xx.
//
// Invariants: bodies, texts and lists have limits; at most four prompts are tokenized at a time.
// The text of a prompt is in no log, metric or error.
//
// Callers: cmd/penstock-external, the demo. Tests: go test ./cmd/internal/external/preprocess
package preprocess
