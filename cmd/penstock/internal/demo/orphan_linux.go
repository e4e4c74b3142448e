package demo

import "syscall"

// processAttributes puts the child into its own process group, so that an interrupt at the terminal
// reaches only the demo. The kernel ends the child if the demo is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
