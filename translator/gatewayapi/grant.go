package gatewayapi

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

func noGrant(from, to report.Ref) string {
	return fmt.Sprintf("no ReferenceGrant in namespace %s lets %ss of namespace %s use %s", to.Namespace, from.Kind,
		from.Namespace, to)
}

// Granted reports whether an object (from) may refer to another (to): both are in one namespace, or
// a ReferenceGrant allows it.
func Granted(r store.Reader, from, to report.Ref) bool {
	if from.Namespace == to.Namespace {
		return true
	}
	for _, g := range store.ReferenceGrants.By(r, store.ByNamespace, to.Namespace) {
		fromFits, toFits := false, false
		for _, f := range g.Spec.From {
			fromFits = fromFits || string(f.Group) == from.Group && string(f.Kind) == from.Kind &&
				string(f.Namespace) == from.Namespace
		}
		for _, t := range g.Spec.To {
			toFits = toFits || string(t.Group) == to.Group && string(t.Kind) == to.Kind &&
				(t.Name == nil || *t.Name == "" || string(*t.Name) == to.Name)
		}
		if fromFits && toFits {
			return true
		}
	}
	return false
}
