// Package external has the parts that the programs of `penstock-external` share: the HTTP server
// (Server), calls of other programs (Peer), and the forms of prompts in OpenAI's API (FormOf). The
// programs stand in for the external services of a pool with picker.processor.
// manifests/charts/external deploys them; any program with the same protocol can replace one.
//
//	preprocess   POST /process: tokenizes a prompt, and calls the other two
//	router       POST /route: chooses a worker by the prefix of its token IDs
//	tokenstore   PUT and GET /tokens/KEY: keeps token IDs until a worker fetches them
//	commands     the command line of them all
//
// The worker is the simulated model server (picker/modelserver).
//
// Each response has the release of its sender (VersionHeader). A Peer rejects a response of another
// minor release, with an error that names both, and accepts a response without that header. Callers
// work without a peer: without the router, the endpoint picker schedules; without the token store,
// token IDs travel in the body, and a worker tokenizes the prompt. So an upgrade costs no request.
//
// Invariants: the bytes of the bodies that a Server holds at a time are bounded: in all, for one
// address (half of that), and for one body. A body takes room as its bytes arrive. A call of a Peer
// has a timeout and a limit for the response; after five failures in a row, no calls are made for
// two seconds.
//
// Tests: go test ./picker/external/...
package external
