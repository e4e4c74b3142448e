//go:build !faults

package imports

// faulty returns false. In builds with the tag faults it returns true for one mistake, which the
// simulation of cluster sets must find.
func faulty(string) bool { return false }
