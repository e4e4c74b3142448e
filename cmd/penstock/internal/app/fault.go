//go:build !faults

package app

import "github.com/penstock-project/penstock/translator"

// fault can panic in a test build (tag faults).
func fault(translator.Query) {}
