package envoy

import (
	parserv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/content_parsers/json/v3"
	jsonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/json_to_metadata/v3"
	ssev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/sse_to_metadata/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	errorNamespace = "penstock.stream"
	errorKey       = "error"
	errorCodeKey   = "code"
	errorKindKey   = "kind"
)

// If a server cannot complete a stream, its last event is an object with error.message or, in the
// Responses API, with response.error.message.
func (b *builder) streamErrors() *ssev3.SseToMetadata {
	rule := func(key string, value *structpb.Value, path ...string) *parserv3.JsonContentParser_RuleConfig {
		pair := &jsonv3.JsonToMetadata_KeyValuePair{MetadataNamespace: errorNamespace, Key: key}
		if value != nil {
			pair.ValueType = &jsonv3.JsonToMetadata_KeyValuePair_Value{Value: value}
		}
		r := &jsonv3.JsonToMetadata_Rule{OnPresent: pair}
		for _, name := range path {
			r.Selectors = append(r.Selectors, &jsonv3.JsonToMetadata_Selector{
				Selector: &jsonv3.JsonToMetadata_Selector_Key{Key: name},
			})
		}
		return &parserv3.JsonContentParser_RuleConfig{Rule: r}
	}
	yes := structpb.NewBoolValue(true)
	return &ssev3.SseToMetadata{ResponseRules: &ssev3.SseToMetadata_ProcessingRules{
		ContentParser: b.extension("json", &parserv3.JsonContentParser{Rules: []*parserv3.JsonContentParser_RuleConfig{
			rule(errorKey, yes, "error", "message"),
			rule(errorKey, yes, "response", "error", "message"),
			rule(errorCodeKey, nil, "error", "code"),
			rule(errorCodeKey, nil, "error", "http_status_code"),
			rule(errorCodeKey, nil, "response", "error", "code"),
			rule(errorKindKey, nil, "error", "type"),
		}}),
	}}
}
