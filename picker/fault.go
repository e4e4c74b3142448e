//go:build !faults

package picker

import "github.com/penstock-project/penstock/picker/extproc"

// fault does nothing. In builds with tag faults, it panics at requests for it.
func fault(*extproc.Request) {}
