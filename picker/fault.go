//go:build !faults

package picker

import "github.com/penstock-project/penstock/picker/extproc"

// fault does nothing. In builds with the tag faults, it panics for requests that ask for a panic.
func fault(*extproc.Request) {}
