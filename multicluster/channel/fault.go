//go:build !faults

package channel

// faulty returns false. With the tag faults it returns true for a mistake that simulations must
// find.
func faulty(string) bool { return false }
