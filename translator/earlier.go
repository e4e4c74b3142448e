package translator

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// WithEarlier adds to d a copy of each route configuration, under its name in earlier releases
// (before model.RoutesName). After an upgrade, connections on an earlier release's filter chain
// thus get current routes until they drain. A copy permits no additional requests: a gated route's
// RBAC filter denies requests that no AccessPolicy has allowed. An Envoy requests a copy only while
// it has an earlier filter chain. A copy sorts before its original, so an Envoy that ACKs the
// original has the copy.
func (d Delta) WithEarlier() Delta {
	upserts, removes := slices.Clip(d.Upserts), slices.Clip(d.Removes)
	for _, r := range d.Upserts {
		if name, ok := earlierName(r.Ref); ok {
			// In protobuf the last value of a field counts, so the appended name replaces
			// RouteConfiguration.name.
			last := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
			upserts = append(upserts, resource.FromParts(r.Type, name,
				append(slices.Clip(r.Parts), resource.NewPart(last, nil, nil))...))
		}
	}
	for _, ref := range d.Removes {
		if name, ok := earlierName(ref); ok {
			removes = append(removes, resource.Ref{Type: ref.Type, Name: name})
		}
	}
	d.Upserts, d.Removes = upserts, removes
	return d
}

func earlierName(r resource.Ref) (string, bool) {
	name := model.ChainOfRoutes(r.Name)
	return name, r.Type == resource.RouteConfiguration && name != r.Name
}
