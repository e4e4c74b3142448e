//go:build !linux

package process

import "syscall"

// Attributes only keeps the terminal's signals from a child. Kernels other than Linux do not end a
// child with its parent.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
