// Package filesystem reads files and folders that users name, with limits of time and bytes. So an
// unresponsive mount, an endless FIFO or a file of /proc that waits for events cannot block the
// process.
//
// Invariants: a caller waits for no operation longer than Timeout. A longer operation is abandoned
// with its goroutine. Until it returns, operations at or below its path fail at once. At most
// maxHung operations are abandoned at a time.
package filesystem
