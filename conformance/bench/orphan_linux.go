package main

import "syscall"

// dieWithParent has the kernel end a child whose parent is gone, however that ended.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
