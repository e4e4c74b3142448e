package envoy

import (
	"slices"

	xdscore "github.com/cncf/xds/go/xds/core/v3"
	matcherxds "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	aiv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ai_protocol_manager/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	typeaiv3 "github.com/envoyproxy/go-control-plane/envoy/type/ai/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
)

// Envoy 1.40 recognizes the chat completions, responses, messages and Gemini APIs by a response's
// fields. Responses of undetectedPaths have OpenAI's usage object, but Envoy reads it only if the
// configuration names an OpenAI API.
const undetectedPaths = `[^?]*/(v1/completions|v1/embeddings|rerank|score|classify|pooling)(\?.*)?`

// fillUsage makes Envoy read the usage object of responses for the access log. The further filters
// follow. Envoy buffers at most 4 MiB of a JSON response for this, and never delays the response.
func (b *builder) fillUsage(further ...*corev3.TypedExtensionConfig) *anypb.Any {
	action := func(name string, api typeaiv3.LLMProtocol) *matcherxds.Matcher_OnMatch {
		reads := b.extension(filterTokenUsage, &aiv3.AiProtocolManager{ResponseHandling: &aiv3.ResponseHandling{
			TokenUsage: &aiv3.TokenUsageExtraction{IncludeUnconfiguredRoutes: true, DefaultLlmProtocol: api},
		}})
		return &matcherxds.Matcher_OnMatch{OnMatch: &matcherxds.Matcher_OnMatch_Action{
			Action: &xdscore.TypedExtensionConfig{Name: name, TypedConfig: b.any(&compositev3.ExecuteFilterAction{
				FilterChain: &compositev3.FilterChainConfiguration{
					TypedConfig: append([]*corev3.TypedExtensionConfig{reads}, further...),
				},
			})},
		}}
	}
	undetected := &matcherxds.RegexMatcher{
		EngineType: &matcherxds.RegexMatcher_GoogleRe2{GoogleRe2: &matcherxds.RegexMatcher_GoogleRE2{}},
		Regex:      undetectedPaths,
	}
	path := &xdscore.TypedExtensionConfig{Name: "path", TypedConfig: b.any(&typev3.HttpRequestHeaderMatchInput{
		HeaderName: ":path",
	})}
	return b.any(&compositev3.CompositePerRoute{Matcher: &matcherxds.Matcher{
		MatcherType: &matcherxds.Matcher_MatcherList_{MatcherList: &matcherxds.Matcher_MatcherList{
			Matchers: []*matcherxds.Matcher_MatcherList_FieldMatcher{{
				Predicate: &matcherxds.Matcher_MatcherList_Predicate{
					MatchType: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate_{
						SinglePredicate: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate{
							Input: path,
							Matcher: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{
								ValueMatch: &matcherxds.StringMatcher{
									MatchPattern: &matcherxds.StringMatcher_SafeRegex{SafeRegex: undetected},
								},
							},
						},
					},
				},
				OnMatch: action("openai", typeaiv3.LLMProtocol_OPENAI_CHAT_COMPLETIONS),
			}},
		}},
		OnNoMatch: action("always", typeaiv3.LLMProtocol_LLM_PROTOCOL_UNSPECIFIED),
	}})
}

// plainUsage removes accept-encoding, because Envoy reads no usage from encoded responses.
func plainUsage(r *model.Route, route *routev3.Route) {
	f := r.Action.Forward
	if len(r.Gates) > 0 && f != nil && slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool {
		return pooled(&w) || w.Imported()
	}) {
		route.RequestHeadersToRemove = append(slices.Clip(route.RequestHeadersToRemove), "accept-encoding")
	}
}
