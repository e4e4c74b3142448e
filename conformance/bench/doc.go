// Command bench measures times, CPU, memory and lost requests of Penstock. It writes progress to
// standard error, and one JSON object for each figure to standard output, for benchtable:
//
//	{"name":"change_growth","value":1.2,"unit":"ratio","limit":2,"about":"what it means"}
//
// declared.go lists all measurements, their figures and limits. `-run` selects figures by regular
// expression. Both sides of a ratio are measured in one run, and in turns if both can run at once:
// a busy machine then slows both. Times are medians; CPU is a mean, because it includes garbage
// collection. A time ends when a client (package proxy) at the other end of a gRPC connection over
// loopback has read the last byte. Where CPU is measured, the client is another process
// (follower.go): this program, started again.
//
// Package world has the measured configurations. up.go starts penstock up with an Envoy and
// objects.
//
// -profile FOLDER writes a CPU and an allocation profile of each measurement.
//
// Only `make bench`, `make bench-access`, `make bench-kube`, `make bench-multicluster`, `make
// bench-picker` and `make bench-release` call it. Tests: cd conformance && go test ./bench/...
package main
