package devices

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// ThisHost returns the cores and main memory of this machine.
func ThisHost() Host {
	bytes, _ := unix.SysctlUint64("hw.memsize")
	return Host{Cores: Share(runtime.NumCPU()) * Whole, Memory: int64(bytes >> 20)}
}
