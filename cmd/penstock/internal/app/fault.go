//go:build !faults

package app

import "github.com/penstock-project/penstock/translator"

// fault panics on request in a test build (tag faults).
func fault(translator.Query) {}
