package envoy

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/penstock-project/penstock/translator/model"
)

const headerReason = "x-penstock-reason"

// hopsReason empties headerReason in a pod's response and keeps it in a hop's response. A removal
// could not depend on the endpoint.
const hopsReason = "%CEL(has(upstream.address) && !upstream.address.startsWith('envoy://') ? '' : " +
	"response.headers['" + headerReason + "'])%"

// ownReason removes headerReason from servers' responses. A hop's own route does this for hops, and
// other clusters' gateways may write the header.
func (b *builder) ownReason(s *routev3.WeightedCluster_ClusterWeight, w *model.WeightedBackend) {
	gateways := w.Cluster.Kind == model.ParentKind || w.Cluster.Kind == model.PeerKind
	switch {
	case b.peers, w.Cluster.IsZero(), hopsAlone(w), gateways:
	case !b.hops && podsAndHops(w):
		s.ResponseHeadersToAdd = append([]*corev3.HeaderValueOption{{
			Header:         &corev3.HeaderValue{Key: headerReason, Value: hopsReason},
			AppendAction:   corev3.HeaderValueOption_OVERWRITE_IF_EXISTS,
			KeepEmptyValue: true,
		}}, s.ResponseHeadersToAdd...)
	default:
		s.ResponseHeadersToRemove = append(slices.Clip(s.ResponseHeadersToRemove), headerReason)
	}
}

func hoistReason(r *routev3.Route) {
	clusters := r.GetRoute().GetWeightedClusters().GetClusters()
	keeps := func(s *routev3.WeightedCluster_ClusterWeight) bool {
		return s.Name != unresolved && !slices.Contains(s.ResponseHeadersToRemove, headerReason)
	}
	if len(clusters) == 0 || slices.ContainsFunc(clusters, keeps) {
		return
	}
	for _, s := range clusters {
		own := slices.Clone(s.ResponseHeadersToRemove)
		s.ResponseHeadersToRemove = slices.DeleteFunc(own, func(h string) bool { return h == headerReason })
	}
	r.ResponseHeadersToRemove = append(slices.Clip(r.ResponseHeadersToRemove), headerReason)
}
