// Command benchtable reads the figures of bench (JSON lines) and the output of `go test -bench`
// from standard input. It writes a table of all figures, and then one JSON object for each figure:
//
//	{"name":"BenchmarkPick/100-endpoints","value":812.4,"unit":"ns/op","limit":1000}
//
// limit is the largest acceptable value, or null. A benchmark reports it as another metric:
// b.ReportMetric(1000, "limit-ns/op"). A figure above its limit is marked OVER, but does not fail
// the run. A failed benchmark and an input without figures fail the run. Tests: cd conformance &&
// go test ./bench/benchtable
package main
