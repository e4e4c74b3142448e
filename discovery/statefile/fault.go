//go:build !faults

package statefile

// faulty injects mistakes in a test build (tag faults).
func faulty(string) bool { return false }
