// Package preprocess implements the program `penstock-external processor`. Package picker/processor
// calls POST /process. The program tokenizes a request's prompt, queries the router for a worker if
// the request has "route": true, and stores the token IDs if there is a token store. Config has the
// tokenizer. Instead of a chat template, the program writes one line for each message.
//
// If the router fails, the response has no worker_address. If the token store fails, token_value
// has the token IDs instead of token_key.
//
// Invariants: the sizes of bodies, texts and lists, and the number of concurrent tokenizations, are
// limited. No log, metric or error contains a prompt's text.
package preprocess
