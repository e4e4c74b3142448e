package demo

import "syscall"

// processAttributes puts the child into a process group of its own, so that an interrupt typed at the terminal reaches
// us alone, and asks the kernel to end it with us, in case that we are killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
