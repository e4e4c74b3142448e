//go:build unix && !linux

package supervisor

import "syscall"

// ProcessAttributes keeps the terminal's interrupts from the child. If this process is killed, the
// child keeps running.
func ProcessAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
