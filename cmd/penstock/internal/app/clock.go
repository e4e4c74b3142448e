//go:build !faults

package app

import "time"

// clock is the wall clock for certificates and tokens; elapsed measures durations. In a test build
// (tag faults), tests can set both.
func clock() func() time.Time   { return time.Now }
func elapsed() func() time.Time { return time.Now }
