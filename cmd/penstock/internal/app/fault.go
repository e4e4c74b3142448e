//go:build !faults

package app

import "github.com/penstock-project/penstock/translator"

// fault is a no-op. In a build with the tag faults, it panics at the header penstock.dev-fault.
func fault(translator.Query) {}
