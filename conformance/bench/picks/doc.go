// Package picks has the parts that the figures of picks need besides Penstock: servers of picks in
// other processes, whose CPU can be read, an Envoy with a route for each server and body mode,
// clients, and model servers that answer at once. Clients and model servers read and write bytes
// without net/http, because they share the machine's cores with the measured processes. Tests: cd
// conformance && go test ./bench/picks
package picks
