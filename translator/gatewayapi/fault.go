//go:build !faults

package gatewayapi

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// In a test build (tag faults) fault panics for routes that request it.
func fault(store.Reader, report.Ref) {}
