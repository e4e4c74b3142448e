// Package preprocess is the program `penstock-external processor`: POST /process, as
// picker/processor calls it. It tokenizes the prompt of a request, asks the router for a worker if
// the request has "route": true, and stores the token IDs if there is a token store. The caller
// passes the tokenizer. The text has a line for each message in place of a chat template.
//
// If the router fails, worker_address is absent. If the store fails, token_value has the token IDs.
//
// Invariants: bodies, texts, lists and concurrent tokenizing are limited. No log, metric or error
// contains a prompt's text.
package preprocess
