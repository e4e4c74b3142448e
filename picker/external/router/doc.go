// Package router is the program `penstock-external router`: POST /route {"token_ids": [1, 15043]}
// -> {"worker_address": "10.0.0.1:8000"}. It chooses the worker with the fewest tokens to read.
//
// The router assumes that a worker has cached the prompts sent to it (picker/prefix). Workers are a
// list of addresses, or the addresses of a DNS name.
//
// Invariants: at most 1,000 workers, and a table of prefixes of at most 60 MiB. After a failed
// lookup the workers stay. Without workers, the answer is 503.
package router
