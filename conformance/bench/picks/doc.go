// Package picks has the parts that the figures of picks need besides Penstock. The servers of picks
// run in other processes, whose CPU can be read. An Envoy has a route for each server and body
// mode. The model servers answer at once. Clients and model servers read and write bytes without
// net/http, because they share the machine's cores with the measured processes. Tests: cd
// conformance && go test ./bench/picks
package picks
