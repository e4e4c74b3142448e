//go:build !faults

package channel

// Only with the build tag faults, faulty returns true for a mistake that simulations must find.
func faulty(string) bool { return false }
