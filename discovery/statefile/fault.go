//go:build !faults

package statefile

// faulty is false. In a test build (tag faults) it injects a known mistake, which the simulation of
// cluster sets must find.
func faulty(string) bool { return false }
