// Package tokenstore stores the token IDs of prompts until a worker fetches them. So no gateway
// transports long lists. Store implements the program `penstock-external tokens`. Processors and
// workers use Client.
//
//	PUT /tokens/KEY   a JSON list of token IDs -> 204; 409 if the key exists
//	GET /tokens/KEY   -> the list; 404 if it was never stored, has expired or was evicted
//
// Invariants: a client without a prompt's random key cannot read the prompt. All lists together
// take at most Config.Bytes. The Store drops a list Config.TTL after it was stored, even if clients
// still read it, because it is a tenant's prompt.
package tokenstore
