package supervisor

import "syscall"

// ProcessAttributes makes the kernel send a signal to the child when the thread that started it
// ends, and keeps the terminal's interrupts from the child. Go may end a thread that a goroutine
// has locked, and ends no other thread. So the caller must lock its thread, and unlock it later.
func ProcessAttributes(end syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end}
}
