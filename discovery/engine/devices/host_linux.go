package devices

import (
	"os"
	"runtime"
)

// ThisHost returns the cores and main memory that this process may use.
func ThisHost() Host { return ReadHost(os.DirFS("/"), runtime.NumCPU()) }
