// Package external has the parts that the programs of `penstock-external` share: the HTTP server
// (Server), calls of other programs (Peer), and the forms of prompts in OpenAI's API (FormOf). The
// programs stand in for the external services of a pool with picker.processor; any program with the
// same protocol can replace one.
//
//	preprocess   POST /process: tokenizes a prompt, and calls the other two
//	router       POST /route: chooses a worker by the prefix of its token IDs
//	tokenstore   PUT and GET /tokens/KEY: keeps token IDs until a worker fetches them
//
// Invariants: a Peer rejects a response of another minor release (VersionHeader). Callers work
// without a peer, so no request fails during an upgrade. The bytes that a Server holds are bounded,
// and a Peer's calls have timeouts, limits and a circuit breaker.
package external
