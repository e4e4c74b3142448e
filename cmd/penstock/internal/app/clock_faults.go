//go:build faults

package app

import (
	"os"
	"strings"
	"time"
)

// clock is off by the duration in the file that $PENSTOCK_FAULT_CLOCK names. The file is read each time, so that a test sets the clock
// of a process that runs.
func clock() func() time.Time {
	path := os.Getenv("PENSTOCK_FAULT_CLOCK")
	return func() time.Time {
		now := time.Now()
		text, err := os.ReadFile(path)
		if err != nil {
			return now
		}
		offset, err := time.ParseDuration(strings.TrimSpace(string(text)))
		if err != nil {
			return now
		}
		return now.Add(offset).Round(0) // a clock that is set has no monotonic reading
	}
}
