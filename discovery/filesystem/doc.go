// Package filesystem reads files and folders that users name, within a bound on time and on bytes.
// A mount may not answer, a FIFO has no end, and a file of /proc may wait for something: none of
// them blocks the process.
//
// discovery/file reads folders of configuration with it; commands, xds/identity and the hub read
// the files that flags name. A test in cmd/penstock finds every other place that opens a file. The
// state folder, which belongs to the process itself, is read without it.
//
// Invariants: no operation takes longer than Timeout. One that has not returned by then is left
// behind, with its goroutine; until it returns, everything at and below its path fails at once. At
// most maxHung paths are left behind.
//
// Tests: go test ./discovery/filesystem
package filesystem
