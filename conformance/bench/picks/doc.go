// Package picks has what the figures of picks need besides Penstock. The pickers run in processes
// of their own, so that their CPU can be read. One Envoy has a route for each picker and body mode.
// Clients and model servers do without net/http, because they share the machine's cores. Tests: cd
// conformance && go test ./bench/picks
package picks
