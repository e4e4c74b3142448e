//go:build !faults

package fault

// Injected reports whether the code must behave as if it had the named fault.
func Injected(string) bool { return false }
