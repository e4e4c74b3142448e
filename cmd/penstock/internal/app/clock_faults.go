//go:build faults

package app

import (
	"os"
	"strings"
	"time"
)

// clock is shifted by $PENSTOCK_FAULT_CLOCK. Its times have no monotonic reading.
func clock() func() time.Time {
	now := shifted("PENSTOCK_FAULT_CLOCK")
	return func() time.Time { return now().Round(0) }
}

// elapsed is shifted by $PENSTOCK_FAULT_ELAPSED. A test may only increase the shift.
func elapsed() func() time.Time { return shifted("PENSTOCK_FAULT_ELAPSED") }

// shifted returns a clock: the time plus the duration in the file that an environment variable
// names. The clock reads the file at each call, so that tests can set it while the process runs.
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
