package main

import "syscall"

// processAttributes asks the kernel to end the child with the thread that started it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
