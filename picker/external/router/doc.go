// Package router is the program `penstock-external router`: POST /route {"token_ids": [1, 15043]}
// -> {"worker_address": "10.0.0.1:8000"}. It chooses the worker with the fewest tokens to read: the
// prompt's tokens that it has not cached, which count twice, and tokens sent there a moment ago.
//
// The router assumes that a worker has cached the prompts sent to it (picker/prefix), in whole
// blocks of 64 tokens. Workers are a list of addresses (HOST:PORT, where HOST may be a pod's name),
// or the addresses of a DNS name, such as a headless Service's, which only has ready pods.
//
// Invariants: at most 1,000 workers, and a table of prefixes that takes 60 MiB at most. After a
// failed lookup the workers stay. An answer names a current worker; without workers it is 503.
//
// Callers: cmd/penstock-external, the demo. Tests: go test ./picker/external/router
package router
