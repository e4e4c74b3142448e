//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

func call(trap, fd uintptr, b []byte) (n int, errno syscall.Errno) {
	moved, _, errno := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(moved), errno
}
