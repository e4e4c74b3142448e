// Package explain compares what penstock explain answers with what Envoy does.
//
// grammar.go draws routes with every type of match, and requests for them: with escapes, dots and
// slashes in paths, encoded and repeated parameters, repeated headers, and hosts in all their
// forms. run.go sends each request through the Envoy of penstock up, asks the same process to
// explain it, and compares the name of the route, as Envoy's access log has it. A request that gets
// no route is compared by its status.
//
// Invariants: a seed gives the same routes and requests. A difference names the request so that a
// user can send it again.
//
// Tests: cd conformance && go test ./features -run Explain. make bench has the figure
// explain_differs, with another seed each day.
package explain
