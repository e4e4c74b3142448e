// Package picks has what the figures of picks need beside Penstock: the servers that a real Envoy
// asks for picks, in processes of their own so that their CPU can be read, the Envoy's
// configuration, model servers, and clients.
//
//	child.go     the servers: our picker, and a gRPC echo
//	envoy.go     one Envoy with a route for each server and body mode
//	clients.go   connections that send the same request as fast as it is answered, or at a rate
//	models.go    model servers that answer at once
//
// Clients and model servers read and write bytes without net/http: they share the machine's cores
// with what is measured.
//
// conformance/bench calls it, and conformance/rivals its echo. Tests: cd conformance && go test
// ./bench/picks
package picks
