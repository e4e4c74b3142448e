//go:build !linux

package process

import "syscall"

// Attributes only keeps the terminal's signals away: other kernels end no child for us.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
