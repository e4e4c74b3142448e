package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	setv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_metadata/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

const subsetKey = "x-gateway-destination-endpoint-subset"

// An empty list allows no endpoint (endpoint picker protocol).
func subsetHint(p *model.PickerCall) *setv3.Metadata {
	list := &structpb.ListValue{Values: make([]*structpb.Value, 0, len(p.Subset.Addresses))}
	for _, a := range p.Subset.Addresses {
		list.Values = append(list.Values, structpb.NewStringValue(a))
	}
	return &setv3.Metadata{
		MetadataNamespace: namesOf(p).Subset,
		AllowOverwrite:    true,
		Value:             field(subsetKey, structpb.NewListValue(list)),
	}
}

// Without a pick, a subset's requests go only to other pools (spill targets) in every failure mode:
// this pool's endpoints may be outside the subset.
func subsetMatch(p *model.PickerCall) *corev3.Metadata {
	if p == nil || p.Subset == nil && !p.Closed {
		return nil
	}
	role := roleSpill
	if p.Closed || p.Subset.Elsewhere {
		role = roleNone
	}
	return &corev3.Metadata{
		FilterMetadata: map[string]*structpb.Struct{"envoy.lb": field(roleKey, structpb.NewStringValue(role))},
	}
}
