//go:build !linux

package demo

import "syscall"

// processAttributes puts the child into a process group of its own, so that an interrupt typed at the terminal reaches
// us alone.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
