//go:build race

package socket

import "syscall"

// call makes a system call through package syscall, which informs the race detector that a write
// happens before the read of the written bytes.
func call(trap, fd uintptr, b []byte) (n int, errno syscall.Errno) {
	do := syscall.Read
	if trap == syscall.SYS_WRITE {
		do = syscall.Write
	}
	n, err := do(int(fd), b)
	errno, _ = err.(syscall.Errno) // package syscall does not wrap errors
	return n, errno
}
