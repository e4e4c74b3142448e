package envoy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	setv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_metadata/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

// An external picker may change a body's length, or only one of these headers. A server would then
// read the rest of the body as the next request. So the route removes both headers after the pick,
// and Envoy writes new headers.
var framing = []string{"content-length", "transfer-encoding"}

func (b *builder) ownFraming() *anypb.Any {
	var remove []*mutationv3.HeaderMutation
	for _, name := range framing {
		remove = append(remove, removeHeader(name))
	}
	return b.any(&headersv3.HeaderMutationPerRoute{Mutations: &headersv3.Mutations{ResponseMutations: remove}})
}

func (b *builder) weightedClusters(f *model.Forward, calls pickerCalls) []*routev3.WeightedCluster_ClusterWeight {
	pools := rulePools(f)
	var shares []*routev3.WeightedCluster_ClusterWeight
	for i := range f.Backends {
		w := &f.Backends[i]
		if w.Weight == 0 {
			continue
		}
		s := &routev3.WeightedCluster_ClusterWeight{
			Name:                    unresolved,
			Weight:                  u32(w.Weight),
			RequestHeadersToAdd:     additions(w.RequestHeaders),
			RequestHeadersToRemove:  w.RequestHeaders.Remove,
			ResponseHeadersToAdd:    additions(w.ResponseHeaders),
			ResponseHeadersToRemove: w.ResponseHeaders.Remove,
		}
		further := len(w.Members) > 0
		if (b.hops || b.peers) && w.Peer == "" && !further {
			s.RequestHeadersToRemove = append(slices.Clip(s.RequestHeadersToRemove), peerSender, peerOthers,
				peerAttempt, peerSession, peerCaller, peerGroups)
		}
		if (b.hops || b.peers || calls.gated) && !hopsAlone(w) {
			s.RequestHeadersToRemove = append(slices.Clip(s.RequestHeadersToRemove), gatedHeaders...)
		}
		if further { // a picker that selects one hop has already set peerOthers
			s.RequestHeadersToAdd = append(slices.Clip(s.RequestHeadersToAdd), &corev3.HeaderValueOption{
				Header:       &corev3.HeaderValue{Key: peerOthers, Value: strconv.Itoa(int(memberRetries(w)))},
				AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
			})
		}
		if b.hops && !further {
			s.ResponseHeadersToRemove = append(slices.Clip(s.ResponseHeadersToRemove), peerLost)
		}
		if b.hops && w.Peer == "" && !further {
			s.ResponseHeadersToRemove = append(s.ResponseHeadersToRemove, peerMark)
		}
		if w.Picker != nil && !further {
			s.ResponseHeadersToRemove = append(slices.Clip(s.ResponseHeadersToRemove), deadMark)
		}
		b.ownReason(s, w)
		if w.Picker != nil && w.Picker.Cluster.External() {
			s.RequestHeadersToRemove = append(slices.Clip(s.RequestHeadersToRemove), framing...)
		}
		if w.MaxGateways > 0 {
			b.via(s)
		}
		if host := cmp.Or(w.RewriteHost, f.RewriteHost); host != "" {
			s.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{HostRewriteLiteral: host}
		}
		if w.Peer != "" {
			toPeer(s, w.Peer)
			if !b.hops {
				vouch(s, calls.gated)
			}
		}
		if !w.Cluster.IsZero() {
			s.Name = b.cluster(w.Cluster)
			s.MetadataMatch = subsetMatch(w.Picker)
			s.TypedPerFilterConfig = b.pickerOverride(w.Picker, f, pools, calls)
			if w.Picker != nil && w.Picker.Cluster.External() {
				put(&s.TypedPerFilterConfig, filterHeaders, b.ownFraming())
			}
			if list := b.metadata(w); len(list) > 0 && !calls.models {
				put(&s.TypedPerFilterConfig, filterMetadata, b.fill(filterMetadata, &setv3.Config{Metadata: list}))
			}
		}
		if (calls.gated || b.believes) && podsAndHops(w) {
			put(&s.TypedPerFilterConfig, filterUnmarked, b.hopsCaller())
		}
		b.keep(s, f, w)
		shares = append(shares, s)
	}
	return shares
}

// hopsAlone reports whether all endpoints of a backend are hops: internal listeners to other pools
// or clusters.
func hopsAlone(w *model.WeightedBackend) bool { return w.Hops || len(w.Members) > 0 }

// podsAndHops reports whether each attempt at an edge's backend may go to a pod or to a hop.
func podsAndHops(w *model.WeightedBackend) bool {
	p := w.Picker
	return !hopsAlone(w) && p != nil && (p.Spills || len(p.Spill) > 0 || p.Again)
}

// hopsCaller writes gatedHeaders in each attempt that goes to a hop. The route removes them first,
// because a route's changes cannot depend on the endpoint. Each attempt removes them again, because
// it starts with the headers of the attempt before.
func (b *builder) hopsCaller() *anypb.Any {
	var list []*mutationv3.HeaderMutation
	for i, key := range gatedMetadata {
		list = append(list, removeHeader(gatedHeaders[i]), setHeader(gatedHeaders[i], fmt.Sprintf(
			"%%CEL(has(upstream.address) && upstream.address.startsWith('envoy://') && "+
				"'%[1]s' in metadata.filter_metadata && '%[2]s' in metadata.filter_metadata['%[1]s'] ? "+
				"metadata.filter_metadata['%[1]s']['%[2]s'] : '')%%", gateMetadata, key)))
	}
	return b.any(&headersv3.HeaderMutationPerRoute{Mutations: &headersv3.Mutations{RequestMutations: list}})
}

func (b *builder) metadata(w *model.WeightedBackend) (list []*setv3.Metadata) {
	if p := w.Picker; p != nil && p.Subset != nil && p.Cluster.External() {
		list = append(list, subsetHint(p))
	}
	values := map[string]*structpb.Value{}
	to := w.Cluster.Pool()
	if !b.hops && to.Member != "" {
		values[memberKey] = structpb.NewStringValue(to.String())
	}
	if p := w.Picker; p != nil && p.Cluster.External() && !p.Pool.IsZero() {
		values[poolKey] = structpb.NewStringValue(p.Pool.String())
	}
	if len(values) > 0 {
		list = append(list, &setv3.Metadata{MetadataNamespace: "penstock", Value: &structpb.Struct{Fields: values}})
	}
	return list
}
