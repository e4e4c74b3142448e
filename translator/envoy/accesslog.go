package envoy

import (
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

// accessLogs are the feedback to the picker, about each request that it picked for, and a file for people.
func (b *builder) accessLogs(cfg Config, owner string) []*accesslogv3.AccessLog {
	logs := []*accesslogv3.AccessLog{{
		Name:   "feedback",
		Filter: hasLease(),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig: &grpclogv3.CommonGrpcAccessLogConfig{
				LogName:             owner,
				GrpcService:         b.grpc(model.OurPicker),
				TransportApiVersion: corev3.ApiVersion_V3,
				BufferFlushInterval: seconds(feedbackInterval),
			},
		})},
	}, b.answersOfParents()}
	if cfg.AccessLog == "" {
		return logs
	}
	return append(logs, &accesslogv3.AccessLog{
		Name:   "file",
		Filter: ended(),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&filelogv3.FileAccessLog{
			Path: cfg.AccessLog,
			AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: logLine()},
			}},
		})},
	})
}

// ended passes requests at their end.
func ended() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
		LogTypeFilter: &accesslogv3.LogTypeFilter{Types: []datav3.AccessLogType{datav3.AccessLogType_DownstreamPeriodic}, Exclude: true},
	}}
}

// parentsLog is the name of the log of what gateways of other clusters answer, and otherAnswers how many there are for one in the log, but for
// those with 404, which are all in it (picker/accesslog).
const (
	parentsLog      = "parents"
	otherAnswers    = 16
	answersInterval = time.Second
)

// answersOfParents are what shows that a gateway of another cluster has no route for the Host that it is asked for. An entry costs 9 us, so
// there are few: of requests that this gateway has counted in Via. It is a stream of its own, whose entries never displace those of leases.
func (b *builder) answersOfParents() *accesslogv3.AccessLog {
	all := func(list ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
		return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{AndFilter: &accesslogv3.AndFilter{Filters: list}}}
	}
	either := func(list ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
		return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{Filters: list}}}
	}
	counted := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{HeaderFilter: &accesslogv3.HeaderFilter{
		Header: header(headerVia, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: "penstock"}}),
	}}}
	missing := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op: accesslogv3.ComparisonFilter_EQ, Value: &corev3.RuntimeUInt32{DefaultValue: 404, RuntimeKey: "penstock.parents_missing"},
		}},
	}}
	others := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_RuntimeFilter{RuntimeFilter: &accesslogv3.RuntimeFilter{
		RuntimeKey:               "penstock.parents_other",
		PercentSampled:           &typev3.FractionalPercent{Numerator: 10_000 / otherAnswers, Denominator: typev3.FractionalPercent_TEN_THOUSAND},
		UseIndependentRandomness: true, // clients choose request ids
	}}}
	return &accesslogv3.AccessLog{
		Name:   parentsLog,
		Filter: all(counted, ended(), either(missing, others)),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig: &grpclogv3.CommonGrpcAccessLogConfig{
				LogName:             parentsLog,
				GrpcService:         b.grpc(model.OurPicker),
				TransportApiVersion: corev3.ApiVersion_V3,
				BufferFlushInterval: seconds(answersInterval),
			},
		})},
	}
}

// renewals has each request in flight logged periodically: that renews its lease.
func renewals() *hcmv3.HttpConnectionManager_HcmAccessLogOptions {
	return &hcmv3.HttpConnectionManager_HcmAccessLogOptions{AccessLogFlushInterval: seconds(renewalInterval)}
}

// hasLease passes requests with a lease of our picker.
func hasLease() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_MetadataFilter{
		MetadataFilter: &accesslogv3.MetadataFilter{
			Matcher: &matcherv3.MetadataMatcher{
				Filter: "penstock",
				Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: "lease"}}},
				Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}},
			},
			MatchIfKeyNotFound: boolean(false),
		},
	}}
}

// logLine is what an operator needs to find a failure: client, request, endpoint, attempts, and the reason.
func logLine() *structpb.Struct {
	fields := map[string]string{
		"time":     "%START_TIME%",
		"id":       "%REQ(X-REQUEST-ID)%",
		"client":   "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
		"method":   "%REQ(:METHOD)%",
		"host":     "%REQ(:AUTHORITY)%",
		"path":     "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
		"route":    "%ROUTE_NAME%",
		"cluster":  "%UPSTREAM_CLUSTER%",
		"picked":   "%DYNAMIC_METADATA(envoy.lb:" + endpointHeader + ")%",
		"served":   "%UPSTREAM_HOST%",
		"attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
		"status":   "%RESPONSE_CODE%",
		"flags":    "%RESPONSE_FLAGS%",
		"details":  "%RESPONSE_CODE_DETAILS%",
		"received": "%BYTES_RECEIVED%",
		"sent":     "%BYTES_SENT%",
		"first_ms": "%RESPONSE_DURATION%",
		"total_ms": "%DURATION%",
	}
	line := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for k, v := range fields {
		line.Fields[k] = structpb.NewStringValue(v)
	}
	return line
}
