//go:build !faults

package channel

// faulty injects faults that simulations must detect. Without the build tag faults it returns
// false.
func faulty(string) bool { return false }
