package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

// endpointHeader is how the endpoint picker protocol names the picked endpoint. Our clusters follow metadata, which no
// client can set; the header is stripped because pods and pickers would see it.
const endpointHeader = "x-gateway-destination-endpoint"

var (
	// edgeHeaders are what no client may send, hopHeaders what a request must not bring along from one pool to another.
	edgeHeaders = []*mutationv3.HeaderMutation{removeHeader(endpointHeader), removeHeader(modelHeader), removePrefix("x-penstock-")}
	hopHeaders  = []*mutationv3.HeaderMutation{removeHeader(endpointHeader)}
)

// manager is what the connection managers of edges and hops have in common. The name is that of the route
// configuration; owner is the gateway or hop, for the picker's access log.
func (b *builder) manager(cfg Config, owner, name string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix: name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{
			Rds: &hcmv3.Rds{ConfigSource: ads(), RouteConfigName: b.rds(name)},
		},
		HttpFilters: b.httpFilters(),
		// Upgrades need AllowConnect to come over HTTP/2. The windows bound what one slow stream holds in memory.
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			AllowConnect:                true,
			MaxConcurrentStreams:        u32(1000),
			InitialStreamWindowSize:     u32(1 << 20),
			InitialConnectionWindowSize: u32(16 << 20),
		},
		UpgradeConfigs:             []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		StreamIdleTimeout:          seconds(streamIdle),
		RequestHeadersTimeout:      seconds(headersTimeout),
		LocalReplyConfig:           tooLarge(),
		AccessLog:                  b.accessLogs(cfg, owner),
		Tracing:                    b.tracing(cfg),
	}
}

// strip removes headers before anything else sees them.
func (b *builder) strip(headers []*mutationv3.HeaderMutation) []*corev3.TypedExtensionConfig {
	return []*corev3.TypedExtensionConfig{b.extension("strip", &earlyv3.HeaderMutation{Mutations: headers})}
}

func removeHeader(name string) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Remove{Remove: name}}
}

func removePrefix(prefix string) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_RemoveOnMatch_{
		RemoveOnMatch: &mutationv3.HeaderMutation_RemoveOnMatch{KeyMatcher: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix},
		}},
	}}
}

// tooLarge explains what Envoy's own "Payload Too Large" leaves open.
func tooLarge() *hcmv3.LocalReplyConfig {
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{{
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
			StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
				Op:    accesslogv3.ComparisonFilter_EQ,
				Value: &corev3.RuntimeUInt32{DefaultValue: 413, RuntimeKey: "penstock.too_large"},
			}},
		}},
		Body: inline("request body too large: this gateway takes at most 32 MiB\n"),
	}}}
}

func inline(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

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

// tracing makes a span of each request, of each attempt upstream and (Envoy by itself) of each call of a picker.
func (b *builder) tracing(cfg Config) *hcmv3.HttpConnectionManager_Tracing {
	if cfg.Tracing == nil {
		return nil
	}
	service := cfg.Tracing.ServiceName
	if service == "" {
		service = "penstock"
	}
	return &hcmv3.HttpConnectionManager_Tracing{
		RandomSampling:    &typev3.Percent{Value: cfg.Tracing.SamplingPercent},
		SpawnUpstreamSpan: boolean(true),
		Provider: &tracev3.Tracing_Http{
			Name: "envoy.tracers.opentelemetry",
			ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: b.any(&tracev3.OpenTelemetryConfig{
				GrpcService: b.grpc(model.Collector),
				ServiceName: service,
			})},
		},
	}
}
