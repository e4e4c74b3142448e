//go:build !linux

package demo

import "syscall"

// processAttributes puts the child into its own process group, so that an interrupt at the terminal
// reaches only the demo.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
