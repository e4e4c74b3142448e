// Package processor calls an external service that prepares a request. The service finds the token
// IDs of the prompt and, if asked to route, a worker. The interface is the Dynamo proposal's (POST
// /process). The service has the tokenizer and the chat templates, and may ask a router that tracks
// each worker's cache.
//
// A pick waits for the call, so the time, the calls in flight and the answer are bounded. After
// several failures in a row a circuit breaker skips the service for a while; picks then continue
// without the service. Answers are checked before use: the token IDs go into the body for the model
// server, and the key into a header.
//
// Package picker makes a Client for each pool whose policy names a processor, and calls Process
// before it chooses an endpoint. Tests: go test ./picker/processor.
package processor
