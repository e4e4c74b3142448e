//go:build !linux

package main

import "syscall"

// dieWithParent only keeps the terminal's signals away: other kernels end no child for us.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
