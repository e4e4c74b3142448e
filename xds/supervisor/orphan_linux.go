package supervisor

import "syscall"

// ProcessAttributes makes the kernel send a signal to the child when the thread that started it
// ends, and keeps the terminal's interrupts from the child. Go ends a thread only if a goroutine
// that has locked the thread exits. So the caller must lock its thread while the child runs, and
// unlock it before its own goroutine exits.
func ProcessAttributes(end syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end}
}
