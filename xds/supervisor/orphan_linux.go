package supervisor

import "syscall"

// ProcessAttributes makes the kernel send the signal `end` to the child when the thread that
// started it ends. Terminal interrupts do not reach the child. Go ends a thread only if a goroutine
// exits while it locks the thread. So the caller must lock its thread while the child runs, and
// unlock it before exiting.
func ProcessAttributes(end syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end}
}
