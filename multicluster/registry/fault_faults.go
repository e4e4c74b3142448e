//go:build faults

package registry

import "os"

// faulty reports whether a test requests a mistake.
func faulty(mistake string) bool { return os.Getenv("PENSTOCK_FAULT") == mistake }
