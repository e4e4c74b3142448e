//go:build !faults

package gatewayapi

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// fault panics only in test builds (tag faults).
func fault(store.Reader, report.Ref) {}
