//go:build faults

package statefile

import "os"

// faulty reports whether a test asks for a mistake.
func faulty(mistake string) bool { return os.Getenv("PENSTOCK_FAULT") == mistake }
