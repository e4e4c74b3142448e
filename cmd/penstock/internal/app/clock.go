//go:build !faults

package app

import "time"

// clock is the wall clock of certificates and tokens, and elapsed the one by which their time
// passes. A test build (tag faults) has clocks that tests set.
func clock() func() time.Time   { return time.Now }
func elapsed() func() time.Time { return time.Now }
