//go:build !faults

package app

import "github.com/penstock-project/penstock/translator"

// fault does nothing. In a test build (tag faults) it can panic.
func fault(translator.Query) {}
