// Package router implements the program `penstock-external router`: POST /route {"token_ids": [1,
// 15043]} -> {"worker_address": "10.0.0.1:8000"}. It chooses the worker with the fewest tokens to
// read.
//
// The router assumes that a worker has cached the prompts that were sent to it (picker/prefix). Its
// workers are from a list of addresses, or from a DNS name.
//
// Invariants: the router has at most 1,000 workers, and a table of prefixes of at most 60 MiB. If a
// lookup fails, the workers stay. Without workers, it answers 503.
package router
