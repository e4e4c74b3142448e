// Package processor calls an external service that prepares a request: it finds the token IDs of
// the prompt and, if asked to route, the worker. It is the client of the Dynamo proposal's
// interface (POST /process), where the service has the tokenizer and the chat templates, and may
// ask a router that tracks each worker's cache.
//
// A pick waits for it, so everything is bounded: the time, the calls in flight, and the answer.
// After several failures in a row a circuit breaker skips the service for a while, and picks
// continue without. Answers are checked before use: token IDs go into the body for the model
// server, and the key into a header.
//
// Package picker makes a Client for each pool whose policy names a processor, and calls Process
// before it chooses an endpoint. Tests: go test ./picker/processor.
package processor
