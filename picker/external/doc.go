// Package external has the shared code of the programs of `penstock-external`: the HTTP server
// (Server), the client for calls between the programs (Peer), and the forms of prompts in OpenAI's
// API (FormOf). The programs are sample implementations of the external services of a pool with
// picker.processor. Any program with the same protocol can replace one.
//
//	preprocess   POST /process: tokenizes a prompt, and calls the router and the token store
//	router       POST /route: chooses a worker by the prefix of its token IDs
//	tokenstore   PUT and GET /tokens/KEY: keeps token IDs until a worker fetches them
//
// Invariants: a Peer rejects a response from a program of another minor release (VersionHeader).
// Every caller can work without its peer, so no request fails during an upgrade. The request bodies
// in a Server's memory are bounded. A Peer's calls have timeouts, size limits and a circuit
// breaker.
package external
