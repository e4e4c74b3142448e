// Package processor calls an external service that prepares a request: it finds the token IDs of
// the prompt and, if asked to route, a worker. The interface is the Dynamo proposal's (POST
// /process). Package picker calls Process before it chooses an endpoint.
//
// Invariants: a pick waits for the call, so the time, the calls in flight and the answer are
// bounded. After several failures in a row a circuit breaker skips the service for a while. Answers
// are checked before use.
package processor
