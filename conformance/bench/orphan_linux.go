package main

import "syscall"

// dieWithParent makes the kernel kill a child whose parent has ended.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
