package publish

import (
	"slices"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// endpointsReady sends endpoints at once, except that a hop precedes the endpoints that name it. The wait is bounded,
// because a change of endpoints may also remove pods.
func endpointsReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.now {
		return true, time.Time{}
	}
	hop, until := s.awaitsHop(it, now)
	return !hop, until
}

// missingHops are the hops that endpoints name and that were removed before the proxy got them.
func (s *Stream) missingHops(e *cache.Entry) (out []*cache.Slot) {
	for _, n := range e.Names {
		if n.Type == resource.Listener && n.Current() == nil && !s.held.has(n.ID) {
			out = append(out, n)
		}
	}
	return out
}

// withoutHops is an assignment without the endpoints that lead to the given hops.
func withoutHops(e *cache.Entry, hops []*cache.Slot) *cache.Entry {
	if len(hops) == 0 {
		return e
	}
	var a endpointv3.ClusterLoadAssignment
	if err := proto.Unmarshal(e.Body(), &a); err != nil {
		return e // Envoy rejects it with a cause
	}
	missing := func(name string) bool {
		return slices.ContainsFunc(hops, func(h *cache.Slot) bool { return h.Name == name })
	}
	for _, group := range a.GetEndpoints() {
		group.LbEndpoints = slices.DeleteFunc(group.LbEndpoints, func(lb *endpointv3.LbEndpoint) bool {
			return missing(lb.GetEndpoint().GetAddress().GetEnvoyInternalAddress().GetServerListenerName())
		})
	}
	body, err := resource.Marshal(&a)
	if err != nil {
		return e
	}
	names := slices.DeleteFunc(slices.Clone(e.Names), func(n *cache.Slot) bool { return slices.Contains(hops, n) })
	return cache.Variant(e, body, names)
}
