//go:build unix && !linux

package supervisor

import "syscall"

// ProcessAttributes keeps terminal interrupts from the child. The child survives if this process is
// killed.
func ProcessAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
