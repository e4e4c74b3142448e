// Package upstream decides how Penstock's own calls reach the model servers of a pool: with or
// without TLS, and over HTTP/1.1 or HTTP/2. Envoy speaks to these servers in the same way
// (translator/envoy). Packages picker, liveness, models, endpoint and tokenize call model servers
// by it; other calls, of remote pickers, processors and scorers, have clients of their own.
//
// Invariants: a Protocol never changes; a Transport follows no proxy.
//
// Tests: go test ./picker/upstream
package upstream
