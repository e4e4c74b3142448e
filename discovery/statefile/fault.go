//go:build !faults

package statefile

// faulty returns false. In a test build (tag faults) it returns true for a mistake to inject, which
// the simulation of cluster sets must find.
func faulty(string) bool { return false }
