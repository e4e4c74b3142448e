//go:build unix && !linux

package supervisor

import "syscall"

// processAttributes has nothing to offer against a parent that is killed outright: only Linux has.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
