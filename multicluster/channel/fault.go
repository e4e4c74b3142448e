//go:build !faults

package channel

// faulty returns true, with the tag faults, for a mistake that simulations must find.
func faulty(string) bool { return false }
