// Package picks has the parts that the figures of picks need besides Penstock: servers that a real
// Envoy asks for picks, the Envoy's configuration, model servers, and clients. Each server is
// another process, so that its CPU can be read.
//
//	child.go     the servers: our picker, and a gRPC echo
//	envoy.go     one Envoy with a route for each server and body mode
//	clients.go   connections that send the same request as fast as it is answered, or at a rate
//	models.go    model servers that answer at once
//
// Clients and model servers read and write bytes without net/http, because they share the machine's
// cores with the measured processes.
//
// conformance/bench calls it; conformance/rivals uses its echo server. Tests: cd conformance && go
// test ./bench/picks
package picks
