//go:build faults

package gatewayapi

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

func fault(r store.Reader, ref report.Ref) {
	if o, ok := store.HTTPRoutes.Get(r, ref.Key()); ok && ref.Kind == store.HTTPRoutes.Kind() &&
		o.Annotations["penstock.dev/fault"] == "panic" {
		panic("the fault that " + ref.String() + " asks for")
	}
}
