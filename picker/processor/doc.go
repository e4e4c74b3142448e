// Package processor asks a service outside of Penstock to prepare a request: to find the token IDs
// of its prompt, and if it is asked to route, the worker that should serve it. It is the client of
// the interface that the Dynamo proposal describes (POST /process), where the service has the
// tokenizer and the chat templates, and may ask a router that knows what each worker has cached.
//
// A pick waits for it, so everything is bounded: the time, the calls in flight, and what is read of
// an answer. After several failures in a row the service is left alone for a while (a circuit
// breaker), and a pick goes on without it. What the service answers is checked before it is used:
// token IDs are put into the body that the model server reads, and the key into a header.
//
// Package picker makes a Client for each pool whose policy names a processor, and calls Process
// before it chooses an endpoint. Tests: go test ./picker/processor.
package processor
