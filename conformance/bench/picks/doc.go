// Package picks has what the figures of picks need besides Penstock. The servers under measurement
// run in processes of their own, whose CPU can be read. One Envoy has a route for each server and
// body mode. Model servers answer at once. Clients and model servers read and write bytes without
// net/http, because they share the machine's cores with the measured processes. Tests: cd
// conformance && go test ./bench/picks
package picks
