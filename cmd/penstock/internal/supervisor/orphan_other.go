//go:build unix && !linux

package supervisor

import "syscall"

// processAttributes leaves the child running if this process is killed: only Linux can end it.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
