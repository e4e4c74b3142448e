//go:build !faults

package registry

// faulty returns false. With the tag faults it returns true for a mistake that simulations must
// find.
func faulty(string) bool { return false }
