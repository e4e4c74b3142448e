package processes

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// zombie is SZOMB of sys/proc.h.
const zombie = 5

// boot is constant, because start times are dates.
func boot() string { return "date" }

// identity differs between two processes that have the same process ID one after another.
func identity(pid int) (string, bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid || info.Proc.P_stat == zombie {
		return "", false
	}
	start := info.Proc.P_starttime
	return fmt.Sprintf("%s/%d.%06d", boot(), start.Sec, start.Usec), true
}

func watch(pid int, want string) (ended <-chan struct{}, release func()) {
	return polled(pid, want, time.Second)
}

type found struct {
	pid      int
	identity string
	leader   bool
}

// find returns no process, because macOS hides the environment of processes.
func find(marks []mark) [][]found { return make([][]found, len(marks)) }

func (found) kill() {}
