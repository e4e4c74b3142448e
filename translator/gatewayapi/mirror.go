package gatewayapi

import (
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// mirror drops an unresolved mirror (Gateway API). It also drops a mirror to a pool, which would
// use queue space and picker time for dropped answers.
func (b *ruleBuilder) mirror(f *filters, spec *gatewayv1.HTTPRequestMirrorFilter, field string) {
	m := model.Mirror{Numerator: 1, Denominator: 1}
	switch {
	case spec.Percent != nil && spec.Fraction != nil:
		b.unsupported(field, "percent and fraction do not go together")
		return
	case spec.Percent != nil:
		m.Numerator, m.Denominator = uint32(max(0, *spec.Percent)), 100
	case spec.Fraction != nil:
		m.Numerator = uint32(max(0, spec.Fraction.Numerator))
		m.Denominator = uint32(max(0, ptr.Deref(spec.Fraction.Denominator, 100)))
	}
	if m.Numerator > m.Denominator || m.Denominator == 0 {
		b.unsupported(field, "%d of %d requests cannot be mirrored", m.Numerator, m.Denominator)
		return
	}
	cluster, ref := b.onlyService(&spec.BackendRef, "requests cannot be mirrored to", field+".backendRef")
	if m.Cluster = cluster; !cluster.IsZero() && m.Numerator > 0 {
		m.Backend = store.TargetOf(ref)
		f.mirrors = append(f.mirrors, m)
		f.clusters = append(f.clusters, m.Cluster)
	}
}
