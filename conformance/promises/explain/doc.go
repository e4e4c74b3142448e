// Package explain compares penstock explain with Envoy. It draws routes with every type of match
// (grammar.go), and requests for them (form.go). run.go sends each request through the Envoy of
// penstock up, and also requests an explanation from penstock. It compares the explained route with
// the route in Envoy's access log. Equal seeds give equal routes and requests. Tests: cd
// conformance && go test ./features -run Explain
package explain
