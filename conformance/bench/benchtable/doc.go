// Command benchtable reads the figures of bench (JSON lines) and the output of `go test -bench` on standard input and
// writes each figure twice on standard output: first all of them as a table for a person, with what they mean, then one
// JSON object a line for a program:
//
//	{"name":"BenchmarkPick/100-endpoints","value":812.4,"unit":"ns/op","limit":1000}
//
// limit is what the figure must not exceed, or null where nobody promised anything. A benchmark states it as one more
// metric of its own, the unit with "limit-" before it: b.ReportMetric(1000, "limit-ns/op").
//
// A figure over its limit is marked OVER in the table and does not fail the run: machines differ, and a person judges.
// What does fail it is a benchmark that failed or input without a single figure.
//
// Only `make bench` calls it. Its own tests: cd conformance && go test ./bench/benchtable
package main
