// Command bench measures what a change costs, at which size, and beside whom. It writes progress and noise to standard
// error, and on standard output one JSON object a figure for benchtable, which makes the table:
//
//	{"name":"change_growth","value":1.2,"unit":"ratio","limit":2,"about":"what it means"}
//
// The names, limits and runs are in declared.go; `-run` chooses by regular expression. Each ratio comes from one run of
// one process, its sides measured in turns, so that a busy machine slows both. Values are medians. Times end where the
// last byte is read by a client (package proxy) at the other end of a real gRPC connection over loopback.
//
// What is measured elsewhere joins by writing such lines too: `make bench` gives benchtable the output of all.
//
// -profile FOLDER writes a CPU and an allocation profile of each measurement.
//
// Only `make bench` calls it. Tests: cd conformance && go test ./bench/...
package main
