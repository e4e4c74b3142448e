// Command bench measures times, CPU, memory and lost requests of Penstock. It writes progress to
// standard error, and one JSON object for each figure to standard output, for benchtable:
//
//	{"name":"change_growth","value":1.2,"unit":"ratio","limit":2,"about":"what it means"}
//
// declared.go lists the measurements with their figures and limits. Both sides of a ratio are
// measured in one run, so that a busy machine slows both. Times are medians. CPU is a mean, which
// includes garbage collection. A time ends when a client (package proxy) has read the last byte
// from a gRPC connection over loopback.
//
// The bench targets of the Makefile call it. Tests: cd conformance && go test ./bench/...
package main
