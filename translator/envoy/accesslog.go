package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

// accessLogs are the feedback to the picker, with each request that was picked for, and a file for people.
func (b *builder) accessLogs(cfg Config, owner string) []*accesslogv3.AccessLog {
	logs := []*accesslogv3.AccessLog{{
		Name: "feedback",
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_MetadataFilter{
			MetadataFilter: &accesslogv3.MetadataFilter{
				Matcher: &matcherv3.MetadataMatcher{
					Filter: "envoy.lb",
					Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: endpointHeader}}},
					Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}},
				},
				MatchIfKeyNotFound: boolean(false),
			},
		}},
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
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&filelogv3.FileAccessLog{
			Path: cfg.AccessLog,
			AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: logLine()},
			}},
		})},
	})
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
