package envoy

import (
	"maps"
	"slices"
	"strconv"

	"cel.dev/expr"
	xdscore "github.com/cncf/xds/go/xds/core/v3"
	matcherxds "github.com/cncf/xds/go/xds/type/matcher/v3"
	typexds "github.com/cncf/xds/go/xds/type/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/translator/model"
)

// metaUpload marks a call about an upload. Its value is how many bytes of bodies the Envoy may hold in all. metaClient is whose it is.
const (
	metaUpload = "x-penstock-upload"
	metaClient = "x-penstock-client"
)

// Whose request it is, as Envoy's command operators.
const (
	clientAddress = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%" // behind trusted hops
	clientMember  = "%DOWNSTREAM_PEER_URI_SAN%"                // of a peer listener: addresses there are what the member writes
)

// largeBody matches the Content-Length of bodies that count over HTTP/1.1: of 10,000 bytes and more. A smaller one, with its request, is 48 KB
// of a connection that is 8 KB without; connections have a limit. Over HTTP/2 a client has as many for one connection as it may have
// streams there, so each counts.
const largeBody = "[0-9]{5,}"

// chunkedHeader has the Transfer-Encoding of a request, which Envoy removes before its filters see it. Our picker removes it
// when it is asked about the upload.
const chunkedHeader = "x-penstock-chunked"

func noteChunked() *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: chunkedHeader, Value: "%REQ(TRANSFER-ENCODING)%"},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}}
}

// uploads is a place that asks our picker about each request with a large body, with one of unknown length (chunked
// transfer coding), or over HTTP/2, before anything holds it: scripts, pickers and the router's retries hold up to maxBody until the request
// ends. Envoy bounds neither their sum nor, in HTTP/1.1, resets the largest (its overload manager keeps no account of them), nor has it
// limits for each client: 30 connections with 1,000 small HTTP/2 uploads each that stop filled a heap of 2 GiB.
// The call lasts as long as the request. If the picker fails, requests pass: the overload manager is the last resort.
func (b *builder) uploads(limit int64, client string) proto.Message {
	if limit <= 0 {
		return &compositev3.Composite{}
	}
	service := b.grpc(model.OurPicker)
	service.RetryPolicy = b.callAgain()
	service.InitialMetadata = []*corev3.HeaderValue{
		{Key: metaUpload, Value: strconv.FormatInt(limit, 10)},
		{Key: metaClient, Value: client},
	}
	call := &extprocv3.ExternalProcessor{
		GrpcService:      service,
		FailureModeAllow: true,
		ProcessingMode: &extprocv3.ProcessingMode{
			RequestHeaderMode:   extprocv3.ProcessingMode_SEND,
			ResponseHeaderMode:  extprocv3.ProcessingMode_SKIP,
			ResponseTrailerMode: extprocv3.ProcessingMode_SEND, // keeps the call open until the request ends
		},
		AllowModeOverride: true, // a body of unknown length is watched
		MessageTimeout:    seconds(messageTimeout),
		RouteCacheAction:  extprocv3.ExternalProcessor_RETAIN,
		StatPrefix:        filterUploads,
	}
	return &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: b.extension("composite", &compositev3.Composite{}),
		XdsMatcher: &matcherxds.Matcher{MatcherType: &matcherxds.Matcher_MatcherList_{MatcherList: &matcherxds.Matcher_MatcherList{
			Matchers: []*matcherxds.Matcher_MatcherList_FieldMatcher{{
				Predicate: anyOf(append(b.headers(map[string]string{"content-length": largeBody, chunkedHeader: ".+"}), b.http2())),
				OnMatch: &matcherxds.Matcher_OnMatch{OnMatch: &matcherxds.Matcher_OnMatch_Action{Action: &xdscore.TypedExtensionConfig{
					Name:        "ask",
					TypedConfig: b.any(&compositev3.ExecuteFilterAction{TypedConfig: b.extension(filterUploads, call)}),
				}}},
			}},
		}}},
	}
}

// http2 matches requests that are streams of a connection.
func (b *builder) http2() *matcherxds.Matcher_MatcherList_Predicate {
	name := func(of string) *expr.Expr {
		return &expr.Expr{ExprKind: &expr.Expr_IdentExpr{IdentExpr: &expr.Expr_Ident{Name: of}}}
	}
	protocol := &expr.Expr{ExprKind: &expr.Expr_SelectExpr{SelectExpr: &expr.Expr_Select{Operand: name("request"), Field: "protocol"}}}
	version := &expr.Expr{ExprKind: &expr.Expr_ConstExpr{ConstExpr: &expr.Constant{ConstantKind: &expr.Constant_StringValue{StringValue: "HTTP/2"}}}}
	is := &expr.ParsedExpr{Expr: &expr.Expr{ExprKind: &expr.Expr_CallExpr{CallExpr: &expr.Expr_Call{Function: "_==_", Args: []*expr.Expr{protocol, version}}}}}
	return &matcherxds.Matcher_MatcherList_Predicate{MatchType: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate_{
		SinglePredicate: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate{
			Input: &xdscore.TypedExtensionConfig{Name: "attributes", TypedConfig: b.any(&matcherxds.HttpAttributesCelMatchInput{})},
			Matcher: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate_CustomMatch{
				CustomMatch: &xdscore.TypedExtensionConfig{Name: "cel", TypedConfig: b.any(&matcherxds.CelMatcher{ExprMatch: &typexds.CelExpression{CelExprParsed: is}})},
			},
		},
	}}
}

// headers match requests with a header that matches its regular expression.
func (b *builder) headers(patterns map[string]string) (out []*matcherxds.Matcher_MatcherList_Predicate) {
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		out = append(out, &matcherxds.Matcher_MatcherList_Predicate{MatchType: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate_{
			SinglePredicate: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate{
				Input: &xdscore.TypedExtensionConfig{Name: name, TypedConfig: b.any(&envoymatcherv3.HttpRequestHeaderMatchInput{HeaderName: name})},
				Matcher: &matcherxds.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: &matcherxds.StringMatcher{
					MatchPattern: &matcherxds.StringMatcher_SafeRegex{SafeRegex: &matcherxds.RegexMatcher{
						EngineType: &matcherxds.RegexMatcher_GoogleRe2{GoogleRe2: &matcherxds.RegexMatcher_GoogleRE2{}}, Regex: patterns[name],
					}},
				}},
			},
		}})
	}
	return out
}

func anyOf(list []*matcherxds.Matcher_MatcherList_Predicate) *matcherxds.Matcher_MatcherList_Predicate {
	return &matcherxds.Matcher_MatcherList_Predicate{MatchType: &matcherxds.Matcher_MatcherList_Predicate_OrMatcher{
		OrMatcher: &matcherxds.Matcher_MatcherList_Predicate_PredicateList{Predicate: list},
	}}
}
