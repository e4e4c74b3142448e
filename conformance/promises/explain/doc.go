// Package explain compares penstock explain with Envoy. grammar.go draws routes with every type of
// match, form.go draws requests for them. run.go sends each request through the Envoy of penstock
// up, asks the same process to explain it, and compares the name of the route with Envoy's access
// log. Without a route it compares the statuses.
//
// Equal seeds give equal routes and requests. Tests: cd conformance && go test ./features -run
// Explain. make bench has the figure explain_differs, with another seed each day.
package explain
