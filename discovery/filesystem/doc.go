// Package filesystem reads files and folders that users name, bounded in time and bytes. An
// unresponsive mount, an endless FIFO or a file of /proc that waits for events does not block the
// process.
//
// Invariants: a caller waits for no operation longer than Timeout. A longer operation is abandoned
// with its goroutine. Until it returns, operations at or below its path fail at once. At most
// maxHung operations are abandoned at a time.
package filesystem
