package supervisor

import "syscall"

// processAttributes makes the kernel kill the child when the thread that started it ends. Go ends a
// thread only with the process, or when a goroutine returns that locked its thread: Envoy.Run locks
// its own and unlocks it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
