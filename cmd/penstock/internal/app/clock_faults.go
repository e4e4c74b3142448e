//go:build faults

package app

import (
	"os"
	"strings"
	"time"
)

// clock is off by the duration in the file that $PENSTOCK_FAULT_CLOCK names, as a wall clock that
// is set: it has no monotonic reading.
func clock() func() time.Time {
	now := shifted("PENSTOCK_FAULT_CLOCK")
	return func() time.Time { return now().Round(0) }
}

// elapsed is ahead by the duration in the file that $PENSTOCK_FAULT_ELAPSED names, as if so much
// time had passed. A test may only increase it.
func elapsed() func() time.Time { return shifted("PENSTOCK_FAULT_ELAPSED") }

// shifted is a clock that is off by the duration in the file that a variable names. The file is
// read each time, so that a test sets the clock of a process that runs.
func shifted(variable string) func() time.Time {
	path := os.Getenv(variable)
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
		return now.Add(offset)
	}
}
