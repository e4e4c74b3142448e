// Package preprocess is the program `penstock-external processor`: POST /process, as
// picker/processor calls it. It tokenizes the prompt of a request, asks the router for a worker if
// the request has "route": true, and stores the token IDs if there is a token store.
//
//	{"request_body": {...}, "headers": {...}} -> {"worker_address": "...", "token_key": "..."}
//	  or {"worker_address": "...", "token_value": "[1,15043]"}
//
// The tokenized text has a line for each message (prompt.go), in place of a model's chat template.
// The caller passes the tokenizer. A model server that consumes token IDs needs a program with its
// model's tokenizer and template.
//
// The router and the store are called at the same time. If the router fails, worker_address is
// absent and the endpoint picker schedules; if the store fails, token_value has the token IDs. The
// answer to a request that cannot be tokenized is 4xx.
//
// Invariants: bodies, texts and lists have limits; at most four prompts are tokenized at a time. No
// log, metric or error contains a prompt's text.
//
// Callers: cmd/penstock-external, the demo. Tests: go test ./picker/external/preprocess
package preprocess
