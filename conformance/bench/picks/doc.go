// Package picks has the parts that the figures of picks need besides Penstock: servers of picks in
// other processes, whose CPU can be read (child.go), an Envoy with a route for each server and body
// mode (envoy.go), clients (clients.go), and model servers that answer at once (models.go).
//
// Clients and model servers read and write bytes without net/http, because they share the machine's
// cores with the measured processes.
//
// conformance/bench calls it; conformance/rivals uses its echo server. Tests: cd conformance && go
// test ./bench/picks
package picks
