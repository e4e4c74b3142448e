package main

import "syscall"

// processAttributes makes the kernel kill the child when the thread that started it ends.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
