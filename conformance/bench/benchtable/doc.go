// Command benchtable reads the figures of bench (JSON lines) and the output of `go test -bench`
// from standard input. It writes a table of all figures and their meaning, and then one JSON object
// a line:
//
//	{"name":"BenchmarkPick/100-endpoints","value":812.4,"unit":"ns/op","limit":1000}
//
// limit is the largest acceptable value, or null. A benchmark states it as a metric of its own, the
// unit with "limit-" before it: b.ReportMetric(1000, "limit-ns/op").
//
// A figure above its limit is marked OVER in the table and does not fail the run, because machines
// differ. A failed benchmark does, and so does an input without figures.
//
// Only `make bench` and `make bench-kube` call it. Tests: cd conformance && go test
// ./bench/benchtable
package main
