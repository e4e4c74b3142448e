//go:build !faults

package channel

// faulty is false. With the tag faults it makes a known mistake, which the simulation of cluster
// sets must find.
func faulty(string) bool { return false }
