package envoy

import (
	"time"

	xdscore "github.com/cncf/xds/go/xds/core/v3"
	matcherxds "github.com/cncf/xds/go/xds/type/matcher/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/metadata/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/penstock-project/penstock/translator/model"
)

const (
	// metaFailed's value is the address of the server that answered with a failure.
	metaFailed = "x-penstock-failed"
	// deadMark is a response header (extproc.HeaderDead). Our picker sets it if the server is dead,
	// and Envoy retries the request at another server.
	deadMark = "penstock-server-dead"
	// failedTimeout exceeds the time that our picker waits for a server (liveness.Checker).
	failedTimeout = 3 * time.Second

	filterFailed   = "failed"
	filterUnmarked = "unmarked"
)

// When a picked server answers 500 or 503, an upstream filter asks our picker whether the server is
// dead. The router has the filter: a filter in each cluster would take more memory.
func (b *builder) router() *routerv3.Router {
	return &routerv3.Router{UpstreamHttpFilters: append(b.ofServers(), b.upstreamCodec())}
}

func (b *builder) ofServers() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{
		b.httpFilter(filterFailed, b.failed()),
		// Responses pass filters from last to first, so this removes only a mark by the server.
		b.httpFilter(filterUnmarked, &headersv3.HeaderMutation{Mutations: &headersv3.Mutations{
			ResponseMutations: []*mutationv3.HeaderMutation{removeHeader(deadMark)},
		}}),
	}
}

func (b *builder) failed() *matchingv3.ExtensionWithMatcher {
	service := b.grpc(model.OurPicker)
	service.RetryPolicy = b.callAgain()
	service.InitialMetadata = []*corev3.HeaderValue{
		{Key: metaFailed, Value: "%UPSTREAM_HOST%"},
		{Key: metaPool, Value: "%DYNAMIC_METADATA(penstock:" + poolKey + ")%"},
	}
	call := &extprocv3.ExternalProcessor{
		GrpcService:      service,
		FailureModeAllow: true,
		ProcessingMode: &extprocv3.ProcessingMode{
			RequestHeaderMode:  extprocv3.ProcessingMode_SKIP,
			ResponseHeaderMode: extprocv3.ProcessingMode_SEND,
		},
		MessageTimeout: seconds(failedTimeout),
		StatPrefix:     filterFailed,
	}
	status := b.matching("status", &matcherv3.HttpResponseHeaderMatchInput{HeaderName: ":status"}, "500|503")
	pool := &inputsv3.DynamicMetadataInput{Filter: "penstock", Path: []*inputsv3.DynamicMetadataInput_PathSegment{
		{Segment: &inputsv3.DynamicMetadataInput_PathSegment_Key{Key: poolKey}},
	}}
	present := b.any(&metadatav3.Metadata{Value: presence()})
	picked := b.single("pool", pool, &singlePredicate{
		Matcher: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate_CustomMatch{
			CustomMatch: &xdscore.TypedExtensionConfig{Name: "present", TypedConfig: present},
		},
	})
	return b.asking(&predicate{MatchType: &matcherxds.Matcher_MatcherList_Predicate_AndMatcher{
		AndMatcher: &predicates{Predicate: []*predicate{status, picked}},
	}}, filterFailed, call)
}
