package envoy

import (
	"maps"
	"slices"
	"strconv"

	xdscore "github.com/cncf/xds/go/xds/core/v3"
	matcherxds "github.com/cncf/xds/go/xds/type/matcher/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/translator/model"
)

// metaUpload's value is this Envoy's limit for all buffered bodies together, in bytes.
const metaUpload = "x-penstock-upload"

// largeBody matches a Content-Length of at least 10,000 bytes. The number of connections bounds the
// memory of smaller bodies.
const largeBody = "[0-9]{5,}"

// chunkedHeader copies a request's Transfer-Encoding, which Envoy removes before its filters run.
const chunkedHeader = "x-penstock-chunked"

func noteChunked() *mutationv3.HeaderMutation {
	return setHeader(chunkedHeader, "%REQ(TRANSFER-ENCODING)%")
}

// uploads asks our picker about each request with a large or unknown body length, before a filter
// buffers up to maxBody. Envoy has no limit for all buffers together, and its overload manager
// resets no HTTP/1.1 requests. The call lasts as long as the request. If it fails, requests pass.
func (b *builder) uploads(limit int64) proto.Message {
	if limit <= 0 {
		return &compositev3.Composite{}
	}
	service := b.grpc(model.OurPicker)
	service.RetryPolicy = b.callAgain()
	service.InitialMetadata = []*corev3.HeaderValue{{Key: metaUpload, Value: strconv.FormatInt(limit, 10)}}
	call := &extprocv3.ExternalProcessor{
		GrpcService:      service,
		FailureModeAllow: true,
		ProcessingMode: &extprocv3.ProcessingMode{
			RequestHeaderMode:   extprocv3.ProcessingMode_SEND,
			ResponseHeaderMode:  extprocv3.ProcessingMode_SKIP,
			ResponseTrailerMode: extprocv3.ProcessingMode_SEND, // keeps the call open until the request ends
		},
		AllowModeOverride: true, // to watch a body of unknown length
		MessageTimeout:    seconds(messageTimeout),
		RouteCacheAction:  extprocv3.ExternalProcessor_RETAIN,
		StatPrefix:        filterUploads,
	}
	return b.asking(b.anyHeader(map[string]string{"content-length": largeBody, chunkedHeader: ".+"}), filterUploads,
		call)
}

type (
	predicate       = matcherxds.Matcher_MatcherList_Predicate
	predicates      = matcherxds.Matcher_MatcherList_Predicate_PredicateList
	singlePredicate = matcherxds.Matcher_MatcherList_Predicate_SinglePredicate
)

func (b *builder) anyHeader(patterns map[string]string) *predicate {
	var any []*predicate
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		any = append(any,
			b.matching(name, &envoymatcherv3.HttpRequestHeaderMatchInput{HeaderName: name}, patterns[name]))
	}
	return &predicate{
		MatchType: &matcherxds.Matcher_MatcherList_Predicate_OrMatcher{OrMatcher: &predicates{Predicate: any}},
	}
}

func (b *builder) matching(name string, input proto.Message, pattern string) *predicate {
	value := &matcherxds.StringMatcher{
		MatchPattern: &matcherxds.StringMatcher_SafeRegex{SafeRegex: &matcherxds.RegexMatcher{
			EngineType: &matcherxds.RegexMatcher_GoogleRe2{GoogleRe2: &matcherxds.RegexMatcher_GoogleRE2{}},
			Regex:      pattern,
		}},
	}
	return b.single(name, input, &singlePredicate{
		Matcher: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: value},
	})
}

func (b *builder) single(name string, input proto.Message, p *singlePredicate) *predicate {
	p.Input = &xdscore.TypedExtensionConfig{Name: name, TypedConfig: b.any(input)}
	return &predicate{MatchType: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: p}}
}

func (b *builder) asking(when *predicate, name string, filter proto.Message) *matchingv3.ExtensionWithMatcher {
	ask := &xdscore.TypedExtensionConfig{
		Name:        "ask",
		TypedConfig: b.any(&compositev3.ExecuteFilterAction{TypedConfig: b.extension(name, filter)}),
	}
	list := &matcherxds.Matcher_MatcherList{Matchers: []*matcherxds.Matcher_MatcherList_FieldMatcher{{
		Predicate: when,
		OnMatch:   &matcherxds.Matcher_OnMatch{OnMatch: &matcherxds.Matcher_OnMatch_Action{Action: ask}},
	}}}
	return &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: b.extension("composite", &compositev3.Composite{}),
		XdsMatcher:      &matcherxds.Matcher{MatcherType: &matcherxds.Matcher_MatcherList_{MatcherList: list}},
	}
}
