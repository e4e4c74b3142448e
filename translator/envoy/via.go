package envoy

import (
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// headerVia lists the gateways that a request has passed through (RFC 9110, section 7.6.3).
const headerVia = "via"

// ringStatus is Loop Detected (RFC 5842, section 7.2).
const ringStatus = 508

func (b *builder) via(share *routev3.WeightedCluster_ClusterWeight) {
	share.RequestHeadersToAdd = append(share.RequestHeadersToAdd, &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: headerVia, Value: "1.1 penstock"},
		AppendAction: corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD,
	})
	share.ResponseHeadersToRemove = append(slices.Clip(share.ResponseHeadersToRemove), headerVia)
}

func maxGateways(f *model.Forward) (least uint32) {
	if f == nil {
		return 0
	}
	for _, w := range f.Backends {
		if n := w.MaxGateways; n > 0 && w.Weight > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// When routes form a ring, requests that have passed through too many gateways go to the rule's
// backends that are not behind gateways, or get ringStatus.
func (b *builder) ringRoutes(vh *model.VirtualHost, r *model.Route, limit uint32) []*routev3.Route {
	one, action := *r, *r.Action
	one.Name, one.Action = r.Name+"#ring", &action
	f := *action.Forward
	f.Backends = slices.DeleteFunc(slices.Clone(f.Backends),
		func(w model.WeightedBackend) bool { return w.MaxGateways > 0 })
	if action.Forward = &f; weightSum(f.Backends) == 0 {
		action = model.Action{
			Direct: &model.Direct{Status: ringStatus,
				Body: fmt.Sprintf(
					"the request has passed through %d gateways or more, and no further one may be asked: their "+
						"routes form a ring", limit)},
			ResponseHeaders: model.HeaderChanges{Set: []model.Header{{Name: headerReason, Value: "gateway_loop"}}},
		}
	}
	routes := b.allRoutes(vh, &one)
	passed := header(headerVia, byRegex(fmt.Sprintf("(.*penstock){%d}.*", limit)))
	for _, route := range routes {
		route.Match.Headers = append(route.Match.Headers, passed)
	}
	return routes
}
