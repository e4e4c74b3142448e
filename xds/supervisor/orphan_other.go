//go:build unix && !linux

package supervisor

import "syscall"

// ProcessAttributes keeps the terminal's interrupts from the child, and leaves it running if this
// process is killed: only Linux can end it.
func ProcessAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
