package envoy

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// numbered returns upstream filters that number the attempts at hops to other clusters. They
// replace the router's upstream filters (failed.go), which a request passes behind its hop.
func (b *builder) numbered() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{
		b.httpFilter("attempt", &headersv3.HeaderMutation{Mutations: &headersv3.Mutations{
			RequestMutations: []*mutationv3.HeaderMutation{
				setHeader(peerAttempt, "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"),
			},
		}}),
		b.upstreamCodec(),
	}
}
