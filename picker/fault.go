//go:build !faults

package picker

import "github.com/penstock-project/penstock/picker/extproc"

// In builds with the tag faults, fault panics for requests that ask for a panic.
func fault(*extproc.Request) {}
