//go:build !faults

package picker

import "github.com/penstock-project/penstock/picker/extproc"

// fault does nothing. In a test build (tag faults) it panics at requests that ask for it.
func fault(*extproc.Request) {}
