//go:build !faults

package statefile

// faulty returns true in a test build (tag faults) for a mistake to inject, which the simulation of
// cluster sets must find.
func faulty(string) bool { return false }
