//go:build race

package socket

import "syscall"

// Package syscall informs the race detector that a write precedes the read of its bytes.
func call(trap, fd uintptr, b []byte) (n int, errno syscall.Errno) {
	do := syscall.Read
	if trap == syscall.SYS_WRITE {
		do = syscall.Write
	}
	n, err := do(int(fd), b)
	errno, _ = err.(syscall.Errno) // package syscall wraps no error
	return n, errno
}
