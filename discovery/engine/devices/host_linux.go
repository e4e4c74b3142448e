package devices

import (
	"os"
	"runtime"
)

// ThisHost returns what this process may use.
func ThisHost() Host { return ReadHost(os.DirFS("/"), runtime.NumCPU()) }
