//go:build faults

package fault

import "os"

// Injected reports whether the code must behave as if it had the named fault.
func Injected(name string) bool { return os.Getenv("PENSTOCK_FAULT") == name }
