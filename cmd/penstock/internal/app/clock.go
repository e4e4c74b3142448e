//go:build !faults

package app

import "time"

// clock is the wall clock of certificates and tokens. A test build (tag faults) has one that tests set.
func clock() func() time.Time { return time.Now }
