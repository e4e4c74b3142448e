//go:build !faults

package app

import "github.com/penstock-project/penstock/translator"

// fault does nothing. In a build with the tag faults, it panics if a test asks for that.
func fault(translator.Query) {}
