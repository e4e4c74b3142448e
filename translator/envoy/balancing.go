package envoy

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	leastv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	overridev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/override_host/v3"
	roundrobinv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	subsetv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

const (
	roleKey   = "role"
	rolePod   = "pod"
	roleSpill = "spill"
	// roleLater marks hops (internal listeners to other pools) after the first. Only a picker
	// selects them: the fallback would spread requests over all hops, against the user's order.
	roleLater = "spill-later"
	roleNone  = "none"
)

const servedKey = "x-gateway-destination-endpoint-served"

func (b *builder) loadBalancing(c *model.Cluster) *clusterv3.LoadBalancingPolicy {
	f := c.Fallback
	exact := func() *clusterv3.LoadBalancingPolicy { // only the round-robin policy has exact shares
		return b.policy("envoy.load_balancing_policies.round_robin", &roundrobinv3.RoundRobin{})
	}
	if c.Protocol == model.UDP {
		return exact()
	}
	least := b.policy("envoy.load_balancing_policies.least_request", &leastv3.LeastRequest{})
	if f == model.PlainLB || f == model.FallbackHops {
		return least
	}
	subset := &subsetv3.Subset{SubsetLbPolicy: least}
	fallback := func() *clusterv3.LoadBalancingPolicy {
		return b.policy("envoy.load_balancing_policies.subset", subset)
	}
	switch f {
	case model.FallbackMembers:
		fallback = exact
	case model.FallbackPods, model.FallbackSpill, model.FallbackAgain:
		role := roleSpill
		if f == model.FallbackPods {
			role = rolePod
		}
		subset.FallbackPolicy = subsetv3.Subset_DEFAULT_SUBSET
		subset.DefaultSubset = &structpb.Struct{
			Fields: map[string]*structpb.Value{roleKey: structpb.NewStringValue(role)},
		}
		// By default, a request for a missing role would get the default subset.
		subset.SubsetSelectors = []*subsetv3.Subset_LbSubsetSelector{
			{Keys: []string{roleKey}, FallbackPolicy: subsetv3.Subset_LbSubsetSelector_NO_FALLBACK},
		}
	case model.FallbackNone:
		// No request has this key, so NO_FALLBACK finds no host: 503.
		subset.FallbackPolicy = subsetv3.Subset_NO_FALLBACK
		subset.SubsetSelectors = []*subsetv3.Subset_LbSubsetSelector{{Keys: []string{"never"}}}
	default:
		b.fail("no such fallback: %q", f)
	}
	own := model.ProtocolNames()
	names := own
	// The source is metadata only: clients could set a header.
	sources := []*overridev3.OverrideHost_OverrideHostSource{{Metadata: metadataKey(own.Namespace, own.Destination)}}
	if c.Names != nil && *c.Names != own {
		// For requests without a body, our picker relays the call, and answers with the protocol's
		// default names.
		names = *c.Names
		sources = append([]*overridev3.OverrideHost_OverrideHostSource{
			{Metadata: metadataKey(names.Namespace, names.Destination)},
		}, sources...)
	}
	return b.policy("envoy.load_balancing_policies.override_host", &overridev3.OverrideHost{
		OverrideHostSources: sources,
		SelectedHostKey:     metadataKey(names.Namespace, servedKey),
		FallbackPolicy:      fallback(),
	})
}

func (b *builder) policy(name string, config proto.Message) *clusterv3.LoadBalancingPolicy {
	return &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
		TypedExtensionConfig: b.extension(name, config),
	}}}
}

func metadataKey(namespace, name string) *metadatav3.MetadataKey {
	return &metadatav3.MetadataKey{Key: namespace, Path: []*metadatav3.MetadataKey_PathSegment{{
		Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: name},
	}}}
}
