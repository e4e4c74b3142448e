// Package router is the program `penstock-external router`: POST /route {"token_ids": [1, 15043]}
// -> {"worker_address": "10.0.0.1:8000"}. It chooses the worker with the fewest tokens to read:
// those of the prompt that it does not have cached, which count twice, and those that it was sent a
// moment ago.
//
// What a worker has cached is what it was sent (picker/prefix), whole blocks of 64 tokens. Workers
// are a list of addresses (HOST:PORT, where HOST may be a pod's name), or those that a DNS name
// resolves to, such as a headless Service's, which has ready pods only.
//
// Invariants: at most 1,000 workers, and a table of prefixes that takes 60 MiB at most. A failed
// lookup keeps the workers of the last one. An answer names a current worker; without one it is
// 503.
//
// Callers: cmd/penstock-external, the demo. Tests: go test ./cmd/internal/external/router
package router
