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

// shifted returns a clock that adds the duration in the file $variable. It reads the file at each
// call, so that tests can change it.
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
