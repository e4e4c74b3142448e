// Package processor calls an external service that prepares a request. The service finds the token
// IDs of the prompt and, on request, chooses a worker. Its interface is the Dynamo proposal's (POST
// /process). Package picker calls Process before it chooses an endpoint.
//
// Invariants: a pick waits for the call, so the duration of a call, the calls in flight and the
// size of an answer are bounded. After several failures in a row, a circuit breaker skips the
// service for a while. Process rejects invalid answers.
package processor
