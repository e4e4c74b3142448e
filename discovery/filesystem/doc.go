// Package filesystem reads files and folders that users name, bounded in time and bytes. An
// unresponsive mount, an endless FIFO or a waiting file of /proc does not block the process.
//
// discovery/file reads folders of configuration with it; commands, xds/identity and the hub read
// the files that flags name. A test in cmd/penstock finds every other place that opens a file. The
// state folder, which belongs to the process itself, is read without it.
//
// Invariants: no operation takes longer than Timeout. An operation that has not returned by then is
// abandoned with its goroutine; until it returns, everything at and below its path fails at once.
// At most maxHung paths are abandoned.
//
// Tests: go test ./discovery/filesystem
package filesystem
