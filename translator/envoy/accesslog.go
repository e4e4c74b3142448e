package envoy

import (
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"

	"github.com/penstock-project/penstock/translator/model"
)

func (b *builder) accessLogs(cfg Config, owner string) []*accesslogv3.AccessLog {
	logs := []*accesslogv3.AccessLog{{
		Name:   "feedback",
		Filter: hasLease(),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig:                    b.toPicker(owner, feedbackInterval),
			AdditionalResponseHeadersToLog:  append([]string{"content-type", grpcStatus}, loggedOfMembers...),
			AdditionalResponseTrailersToLog: []string{grpcStatus},
		})},
	}, b.toMembers(owner == model.HopListener)}
	if owner != model.HopListener && !b.peers { // usage counts once: at the listener whose gate decided
		logs = append(logs, b.toUsage())
	}
	file := b.fileLog(cfg, logLine)
	for _, l := range file {
		l.Filter = ended()
	}
	return append(logs, file...)
}

func allOf(filters ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: filters},
	}}
}

func ended() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
		LogTypeFilter: &accesslogv3.LogTypeFilter{
			Types: []datav3.AccessLogType{datav3.AccessLogType_DownstreamPeriodic}, Exclude: true,
		},
	}}
}

const (
	membersLog      = "members"
	membersInterval = 250 * time.Millisecond
)

// toMembers logs requests to other clusters that have no lease (our picker's ID of a counted
// request). The hops' listener logs all requests without a lease: nearly all go to other clusters.
// These entries have their own stream, so that they displace no other entries.
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
		Name:   membersLog,
		Filter: allOf(filters...),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig:                   b.toPicker(membersLog, membersInterval),
			AdditionalResponseHeadersToLog: loggedOfMembers,
		})},
	}
}

const usageLog = "usage"

// UsageInterval is how long Envoy buffers an entry about token usage.
const UsageInterval = 250 * time.Millisecond

// Entries about token usage have their own stream, so that they displace no other entries. Periodic
// entries count streams that end because Envoy ends.
func (b *builder) toUsage() *accesslogv3.AccessLog {
	caller := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_MetadataFilter{
		MetadataFilter: &accesslogv3.MetadataFilter{
			Matcher: &matcherv3.MetadataMatcher{
				Filter: gateMetadata,
				Path:   []*matcherv3.MetadataMatcher_PathSegment{pathSegment(callerMetadata)},
				Value:  presence(),
			},
			MatchIfKeyNotFound: boolean(false),
		},
	}}
	denied := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"UAEX"}},
	}}
	return &accesslogv3.AccessLog{
		Name: usageLog,
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{
			OrFilter: &accesslogv3.OrFilter{Filters: []*accesslogv3.AccessLogFilter{caller, denied}},
		}},
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig:                   b.toPicker(usageLog, UsageInterval),
			AdditionalRequestHeadersToLog:  []string{ModelHeader},
			AdditionalResponseHeadersToLog: []string{"content-type", "content-encoding", headerReason},
		})},
	}
}

func (b *builder) toPicker(log string, interval time.Duration) *grpclogv3.CommonGrpcAccessLogConfig {
	return &grpclogv3.CommonGrpcAccessLogConfig{
		LogName:             log,
		GrpcService:         b.grpc(model.OurPicker),
		TransportApiVersion: corev3.ApiVersion_V3,
		BufferFlushInterval: seconds(interval),
		CustomTags:          firstBody,
	}
}

// Envoy's own time to the first byte ends at the headers, which servers send before they read the
// prompt.
var firstBody = []*tracingv3.CustomTag{{
	Tag: "first_body", Type: &tracingv3.CustomTag_Value{Value: "%COMMON_DURATION(US_TX_END:US_RX_BODY_BEG:us)%"},
}}

const grpcStatus = "grpc-status"

var loggedOfMembers = []string{peerMark, "x-request-id"}

func renewals() *hcmv3.HttpConnectionManager_HcmAccessLogOptions {
	return &hcmv3.HttpConnectionManager_HcmAccessLogOptions{AccessLogFlushInterval: seconds(renewalInterval)}
}

const (
	leaseKey = "lease"
	// memberKey is the metadata key of the exporting cluster. UPSTREAM_CLUSTER is empty if Envoy
	// found no host.
	memberKey = "member"
	poolKey   = "pool"
)

func hasLease() *accesslogv3.AccessLogFilter { return hasMetadata(leaseKey, presence(), false) }

func presence() *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}}
}

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

// The query may contain a client's key.
const pathWithoutQuery = "%PATH(NQ)%"

var logLine = map[string]string{
	"time":       "%START_TIME%",
	"id":         "%REQ(X-REQUEST-ID)%",
	"client":     "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
	"method":     "%REQ(:METHOD)%",
	"caller":     "%DYNAMIC_METADATA(" + gateMetadata + ":" + callerMetadata + ")%",
	"denied_by":  "%DYNAMIC_METADATA(" + gateMetadata + ":" + policyMetadata + ")%",
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
