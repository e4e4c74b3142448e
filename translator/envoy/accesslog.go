package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
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
	}}
	if cfg.AccessLog == "" {
		return logs
	}
	return append(logs, &accesslogv3.AccessLog{
		Name: "file",
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
			LogTypeFilter: &accesslogv3.LogTypeFilter{Types: []datav3.AccessLogType{datav3.AccessLogType_DownstreamPeriodic}, Exclude: true},
		}},
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&filelogv3.FileAccessLog{
			Path: cfg.AccessLog,
			AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: logLine()},
			}},
		})},
	})
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
