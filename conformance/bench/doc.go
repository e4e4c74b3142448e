// Command bench measures what a change costs, at which size, and beside whom. It writes progress and noise to standard
// error, and on standard output one JSON object a figure for benchtable, which makes the table:
//
//	{"name":"change_growth","value":1.2,"unit":"ratio","limit":2,"about":"what it means"}
//
// The names, limits and runs are in declared.go; `-run` chooses by regular expression. The sides of a ratio come from one
// run, measured in turns where both can be there at once, so that a busy machine slows both. Times are medians if there are
// several; CPU is a mean, because collecting garbage is part of it now and then. A time ends where the last byte is read by
// a client (package proxy) at the other end of a real gRPC connection over loopback. Where CPU is counted, the client has a
// process of its own (follower.go): this program, started again.
//
// What is measured elsewhere joins by writing such lines too: `make bench` gives benchtable the output of all.
//
// -profile FOLDER writes a CPU and an allocation profile of each measurement.
//
// Only `make bench` calls it. Tests: cd conformance && go test ./bench/...
package main
