//go:build !faults

package statefile

// faulty reports whether the code must behave as if it had the named fault, which simulations must
// detect. It returns false in builds without the build tag "faults".
func faulty(string) bool { return false }
