package supervisor

import "syscall"

// ProcessAttributes makes the kernel send a signal to the child when the thread that started it
// ends, and keeps the terminal's interrupts from the child. Go ends a thread only with the process,
// or when a goroutine returns that locked its thread: the caller locks its own and unlocks it.
func ProcessAttributes(end syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end}
}
