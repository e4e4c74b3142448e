// Package tokenstore keeps token IDs of prompts until a worker fetches them, so that no gateway
// transports long lists. Store is the program `penstock-external tokens`; processors and workers
// use Client.
//
//	PUT /tokens/KEY   a JSON list of token IDs -> 204; 409 if the key exists
//	GET /tokens/KEY   -> the list; 404 if it was never stored, has expired or was evicted
//
// A key is 128 random bits (NewKey), so a client without a prompt's key cannot read the prompt, and
// no response lists keys. The network decides who may write: the chart's NetworkPolicy allows the
// processor and the workers.
//
// Invariants: all lists together take at most Config.Bytes; the least recently used ones are
// evicted first. A list is dropped Config.TTL after it was stored, even if it is in use, because it
// is a tenant's prompt.
//
// Callers: cmd/penstock-external, the demo, package preprocess, penstock sim. Tests: go test
// ./picker/external/tokenstore
package tokenstore
