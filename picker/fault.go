//go:build !faults

package picker

import "github.com/penstock-project/penstock/picker/extproc"

// fault does nothing. In test builds with the tag faults, a request can make it panic.
func fault(*extproc.Request) {}
