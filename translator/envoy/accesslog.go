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
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

// accessLogs are the feedback to the picker, about each request that it picked for, what became of
// other requests to exporting clusters of imports, and a file for people.
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
				CustomTags:          firstBody,
			},
			AdditionalResponseHeadersToLog:  append([]string{"content-type", grpcStatus}, loggedOfMembers...),
			AdditionalResponseTrailersToLog: []string{grpcStatus},
		})},
	}, b.toMembers(owner == model.HopListener)}
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
		LogTypeFilter: &accesslogv3.LogTypeFilter{
			Types: []datav3.AccessLogType{datav3.AccessLogType_DownstreamPeriodic}, Exclude: true,
		},
	}}
}

const (
	// membersLog is the name of the log of requests to exporting clusters of imports
	// (picker/accesslog).
	membersLog      = "members"
	membersInterval = 250 * time.Millisecond
)

// toMembers are the requests to exporting clusters of imports without a lease: how each was
// answered, by which cluster. Those that are behind no hop are marked in their metadata
// (memberKey); hops lead to little else, and Envoy has no filter by cluster. It is a stream of its
// own, whose entries never displace those of leases. An entry costs Envoy a part of a small
// request's CPU that larger buffers do not change.
func (b *builder) toMembers(hops bool) *accesslogv3.AccessLog {
	filters := []*accesslogv3.AccessLogFilter{
		hasMetadata(leaseKey, &matcherv3.ValueMatcher{
			MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: exact("")},
		}, true), ended(),
	}
	if !hops {
		filters = append(filters, hasMetadata(memberKey, presence(), false))
	}
	return &accesslogv3.AccessLog{
		Name: membersLog,
		Filter: &accesslogv3.AccessLogFilter{
			FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
				AndFilter: &accesslogv3.AndFilter{Filters: filters},
			},
		},
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig: &grpclogv3.CommonGrpcAccessLogConfig{
				LogName:             membersLog,
				GrpcService:         b.grpc(model.OurPicker),
				TransportApiVersion: corev3.ApiVersion_V3,
				BufferFlushInterval: seconds(membersInterval),
				CustomTags:          firstBody,
			},
			AdditionalResponseHeadersToLog: loggedOfMembers,
		})},
	}
}

// firstBody is the time from the request's last byte to the first byte of the response's body,
// which picker/accesslog reads. The time to the first byte that Envoy logs by itself is of the
// headers, which servers send before they read the prompt.
var firstBody = []*tracingv3.CustomTag{{
	Tag: "first_body", Type: &tracingv3.CustomTag_Value{Value: "%COMMON_DURATION(US_TX_END:US_RX_BODY_BEG:us)%"},
}}

// grpcStatus is the outcome of a call whose HTTP status is 200.
const grpcStatus = "grpc-status"

// loggedOfMembers are headers of answers: whether an exporting cluster has declined the request,
// and the ID that its gateway has given it.
var loggedOfMembers = []string{peerMark, "x-request-id"}

// renewals has each request in flight logged periodically: that renews its lease.
func renewals() *hcmv3.HttpConnectionManager_HcmAccessLogOptions {
	return &hcmv3.HttpConnectionManager_HcmAccessLogOptions{AccessLogFlushInterval: seconds(renewalInterval)}
}

// The keys of the dynamic metadata "penstock".
const (
	leaseKey = "lease" // of our picker
	// objectid.Target of an exporting cluster: the access log of an edge reports requests to it. An
	// entry has the Envoy cluster only where a host was found.
	memberKey = "member"
	// objectid.Target of the pool: our picker sends it with a lease; requests that another picker
	// picks for have it, too.
	poolKey = "pool"
)

// hasLease passes requests with a lease of our picker.
func hasLease() *accesslogv3.AccessLogFilter { return hasMetadata(leaseKey, presence(), false) }

func presence() *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}}
}

// hasMetadata passes requests whose dynamic metadata has a value, or with absent, those that have
// none under its key, too.
func hasMetadata(key string, value *matcherv3.ValueMatcher, absent bool) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_MetadataFilter{
		MetadataFilter: &accesslogv3.MetadataFilter{
			Matcher: &matcherv3.MetadataMatcher{
				Filter: "penstock",
				Path: []*matcherv3.MetadataMatcher_PathSegment{
					{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}},
				},
				Value: value,
			},
			MatchIfKeyNotFound: boolean(absent),
		},
	}}
}

// pathWithoutQuery is the path that the client sent. Its query may have a key of the client's.
const pathWithoutQuery = "%PATH(NQ)%"

// logLine is what an operator needs to find a failure: client, request, endpoint, attempts, and the
// reason.
func logLine() *structpb.Struct {
	fields := map[string]string{
		"time":       "%START_TIME%",
		"id":         "%REQ(X-REQUEST-ID)%",
		"client":     "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
		"method":     "%REQ(:METHOD)%",
		"host":       "%REQ(:AUTHORITY)%",
		"path":       pathWithoutQuery,
		"route":      "%ROUTE_NAME%",
		"cluster":    "%UPSTREAM_CLUSTER%",
		"picked":     "%DYNAMIC_METADATA(envoy.lb:" + endpointHeader + ")%",
		"served":     "%UPSTREAM_HOST%",
		"attempts":   "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
		"status":     "%RESPONSE_CODE%",
		"flags":      "%RESPONSE_FLAGS%",
		"details":    "%RESPONSE_CODE_DETAILS%",
		"received":   "%BYTES_RECEIVED%",
		"sent":       "%BYTES_SENT%",
		"headers_ms": "%RESPONSE_DURATION%",
		"first_ms":   "%COMMON_DURATION(DS_RX_BEG:US_RX_BODY_BEG:ms)%",
		"total_ms":   "%DURATION%",
	}
	line := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for k, v := range fields {
		line.Fields[k] = structpb.NewStringValue(v)
	}
	return line
}
