// Package external has what the programs of `penstock-external` share: how one serves HTTP
// (Server), how it calls another (Peer), and which form a prompt of OpenAI's API has (FormOf). The
// programs are small stand-ins for the external services of a pool with picker.processor, and
// manifests/charts/external deploys them; each can be replaced by another program that speaks the
// same protocol.
//
//	preprocess   POST /process: tokenizes a prompt, and asks the other two
//	router       POST /route: chooses a worker by the prefix of its token IDs
//	tokenstore   PUT and GET /tokens/KEY: keeps token IDs until a worker fetches them
//	commands     the command line of them all
//
// The worker is the simulated model server (package sim), which fetches token IDs by
// tokenstore.Client.
//
// Versions are checked by the caller. Each response has the release of the program that sent it
// (VersionHeader), and a Peer does not use a response of another minor release: its error names
// both. A response without that header is of a program that has replaced ours, and is used. Callers
// go on without a peer: without the router, the endpoint picker schedules; without the token store,
// token IDs travel in the body; a worker without the token store tokenizes the prompt. So an
// upgrade during which both releases run costs no request.
//
// Invariants: the bodies that a Server holds at a time have a limit in bytes together, half of it
// for an address, and each has one of its own. A body takes room as its bytes arrive. A call of a
// Peer has a deadline and a largest answer; after five failures in a row the peer is left out for
// two seconds.
//
// Tests: go test ./cmd/internal/external/...
package external
