package envoy

import (
	"fmt"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

type localError struct {
	when    string
	reason  string
	message string
}

const codeDetails = "response.code_details"

// ownErrors are Envoy's errors whose bodies become errors in the API's format. The first match
// counts. The error of a codec has no path, so its body stays.
var ownErrors = []localError{
	{codeDetails + " == 'route_not_found'", "no_route", "no route of this host matches the request"},
	{codeDetails + " == 'cluster_not_found'", "no_backend",
		"the backend of the route does not exist, or cannot be used"},
	{codeDetails + " == 'no_healthy_upstream'", "no_endpoints", "no server takes requests now"},
	{codeDetails + ".startsWith('upstream_reset_before_response_started{overflow')", "overloaded",
		"the gateway has too many requests open"},
	{codeDetails + ".startsWith('upstream_reset_before_response_started')", "server_failed",
		"no server can be reached, or the server has ended the connection without an answer"},
	{codeDetails + " in ['response_timeout', 'upstream_per_try_timeout', 'upstream_max_stream_duration_reached', " +
		"'max_duration_timeout', 'stream_idle_timeout']", "timeout", "no answer in time"},
	{codeDetails + " == 'request_overall_timeout'", "request_timeout", "the request has not arrived in time"},
	{codeDetails + " == 'ext_authz_error'", "authorization_unavailable", "the request cannot be authorized now"},
	{codeDetails + ".startsWith('rbac_access_denied')", "denied", "the request is not permitted"},
	{codeDetails + " == 'missing_host_header'", "bad_request", "the request has no header Host"},
	{codeDetails + " == 'path_normalization_failed'", "bad_request", "the path is not valid"},
	{codeDetails + " == 'low_version'", "bad_request", "HTTP/1.0 is not served here: use HTTP/1.1"},
}

var otherReasons = []localError{
	{codeDetails + " == 'direct_response' && response.code == 421", "misdirected", ""},
	{codeDetails + " == 'direct_response'", "no_backend", ""},
	{codeDetails + " == 'http1.https_url_on_plaintext_connection'", "bad_request", ""},
	{"response.code == 401 || response.code == 403", "denied", ""},
	{"response.code == 408", "request_timeout", ""},
	{"response.code == 429", "rate_limited", ""},
	{"response.code == 504", "timeout", ""},
	{"response.code < 500", "bad_request", ""},
}

const otherReason = "unavailable"

// If the evaluation of a condition fails, the condition is false. Only API requests get an API's
// error format; gRPC has its own format.
const (
	isError     = "response.code >= 400 && !('" + headerReason + "' in response.headers)"
	isAPI       = "request.url_path.contains('/v1/') && !(" + isGRPC + ")"
	isGRPC      = "'content-type' in request.headers && request.headers['content-type'].startsWith('application/grpc')"
	isAnthropic = "(request.url_path.endsWith('/v1/messages') || " +
		"request.url_path.endsWith('/v1/messages/count_tokens'))"
	isDirect     = codeDetails + " == 'direct_response' && response.code != 421" // a 421 has no body
	isNoModel    = "xds.route_name == '" + noModelRoute + "'"
	isTooLarge   = "response.code == 413 && !('" + headerReason + "' in response.headers)"
	openAIType   = "response.code < 500 ? 'invalid_request_error' : 'service_unavailable_error'"
	tooLargeText = "request body too large: where this gateway reads bodies it takes at most 32 MiB, or less " +
		"by a picker " +
		"or an authorization service: send a smaller one"
)

const anthropicTypes = "response.code == 404 ? 'not_found_error' : response.code == 413 ? 'request_too_large' : " +
	"response.code == 504 ? 'timeout_error' : response.code < 500 ? 'invalid_request_error' : 'api_error'"

type localClass struct {
	filter *accesslogv3.AccessLogFilter
	add    []*corev3.HeaderValueOption
}

// Each localClass has its own mappers, because only the first match counts.
func (b *builder) localReplies(classes ...localClass) *hcmv3.LocalReplyConfig {
	var mappers []*hcmv3.ResponseMapper
	both := func(when, message, reason string) (pair []*hcmv3.ResponseMapper) {
		return append(pair, b.apiError(when, true, message, reason), b.apiError(when, false, message, reason))
	}
	mappers = append(mappers, both(isTooLarge, tooLargeText, "'body_too_large'")...)
	if len(classes) == 0 {
		mappers = append(mappers, both(isError+" && "+isNoModel, noModelText, "'model_not_found'")...)
		reason := "'" + headerReason + "' in response.headers ? response.headers['" + headerReason + "'] : "
		mappers = append(mappers, both("response.code >= 400 && "+isDirect+" && "+isAPI, "%LOCAL_REPLY_BODY%",
			reason+choose(otherReasons, localError.code, otherReason))...)
	}
	own := make([]string, len(ownErrors))
	for i, e := range ownErrors {
		own[i] = "(" + e.when + ")"
	}
	message := func(e localError) string { return e.message }
	all := choose(append(ownErrors[:len(ownErrors):len(ownErrors)], otherReasons...), localError.code, otherReason)
	for _, class := range append(classes, localClass{}) {
		shaped := both(isError+" && "+isAPI+" && ("+strings.Join(own, " || ")+")",
			"%CEL("+choose(ownErrors, message, "")+")%", choose(ownErrors, localError.code, ""))
		other := &hcmv3.ResponseMapper{Filter: class.filter,
			HeadersToAdd: append(class.add[:len(class.add):len(class.add)], reasonOf(all)...)}
		if class.filter == nil {
			other.Filter = b.celFilter(isError)
		}
		for _, m := range shaped {
			if class.filter != nil {
				m.Filter = allOf(class.filter, m.Filter)
			}
			m.HeadersToAdd = append(m.HeadersToAdd, class.add...)
		}
		mappers = append(append(mappers, shaped...), other)
	}
	return &hcmv3.LocalReplyConfig{Mappers: mappers}
}

func (e localError) code() string { return e.reason }

func choose(errors []localError, text func(localError) string, other string) string {
	var out strings.Builder
	for _, e := range errors {
		fmt.Fprintf(&out, "%s ? '%s' : ", e.when, text(e))
	}
	return out.String() + "'" + other + "'"
}

func (b *builder) apiError(when string, anthropic bool, message, reason string) *hcmv3.ResponseMapper {
	text := structpb.NewStringValue
	body := map[string]*structpb.Value{
		"message": text(message), "type": text("%CEL(" + openAIType + ")%"),
		"param": structpb.NewNullValue(), "code": text("%CEL(" + reason + ")%"),
	}
	whole := map[string]*structpb.Value{}
	if anthropic {
		when = isAnthropic + " && " + when
		body = map[string]*structpb.Value{"message": text(message), "type": text("%CEL(" + anthropicTypes + ")%")}
		whole["type"] = text("error")
	}
	whole["error"] = structpb.NewStructValue(&structpb.Struct{Fields: body})
	return &hcmv3.ResponseMapper{
		Filter: b.celFilter(when),
		BodyFormatOverride: &corev3.SubstitutionFormatString{
			Format:      &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: &structpb.Struct{Fields: whole}},
			ContentType: "application/json",
		},
		HeadersToAdd: reasonOf(reason),
	}
}

func reasonOf(expression string) []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{{
		Header:       &corev3.HeaderValue{Key: headerReason, Value: "%CEL(" + expression + ")%"},
		AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
	}}
}

func (b *builder) celFilter(expression string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name: "cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{
				TypedConfig: b.any(&celv3.ExpressionFilter{Expression: expression}),
			},
		},
	}}
}
