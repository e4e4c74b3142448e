//go:build race

package socket

import "syscall"

// call reads or writes. Only package syscall lets the race detector learn that a write precedes the
// read that receives its bytes. trap is SYS_READ or SYS_WRITE.
func call(trap, fd uintptr, b []byte) (n int, errno syscall.Errno) {
	do := syscall.Read
	if trap == syscall.SYS_WRITE {
		do = syscall.Write
	}
	n, err := do(int(fd), b)
	errno, _ = err.(syscall.Errno) // package syscall wraps no error
	return n, errno
}
