package envoy

import (
	"slices"
	"time"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/translator/model"
)

// Penstock's clusters follow the pick in metadata, which clients cannot set. Listeners remove this
// header, so that pods and pickers receive no client's header.
const endpointHeader = "x-gateway-destination-endpoint"

const peerHeaders = "penstock-peer-"

var (
	// edgeHeaders removes headers that clients must not send. hopHeaders removes headers that must
	// not pass from one pool to another.
	edgeHeaders = slices.Concat([]*mutationv3.HeaderMutation{
		removeHeader(endpointHeader), removeHeader(ModelHeader), removePrefix("x-penstock-"), removePrefix(peerHeaders),
		noteChunked(),
	}, routingHeaders())
	hopHeaders    = append(routingHeaders(), removeHeader(endpointHeader))
	mirrorHeaders = append(slices.Clip(hopHeaders), removePrefix(peerHeaders), removePrefix("x-penstock-"))
)

// With these headers, a client could make a server send a request to any address, or could read
// another client's prompt.
func routingHeaders() (out []*mutationv3.HeaderMutation) {
	for _, name := range endpointpicker.RoutingHeaders() {
		out = append(out, removeHeader(name))
	}
	return out
}

func (b *builder) manager(cfg Config, owner, name string, requestTimeout time.Duration, uploads int64,
	headers *headersv3.HeaderMutation) *hcmv3.HttpConnectionManager {
	b.waits = cfg.Waits
	routes := name
	if name != model.HopListener { // hops have no authorization filters, so their routes need no RoutesName
		routes = model.RoutesName(name)
	}
	return &hcmv3.HttpConnectionManager{
		StatPrefix: name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{
			Rds: &hcmv3.Rds{ConfigSource: ads(), RouteConfigName: b.rds(routes)},
		},
		HttpFilters:         b.httpFilters(uploads, headers),
		HttpProtocolOptions: http1(),
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			AllowConnect:                true,
			MaxConcurrentStreams:        u32(1000),
			InitialStreamWindowSize:     u32(1 << 20),
			InitialConnectionWindowSize: u32(16 << 20),
		},
		UpgradeConfigs:             []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: websocket}},
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		StreamIdleTimeout:          seconds(streamIdle),
		RequestHeadersTimeout:      seconds(headersTimeout),
		// Contrary to Envoy's documentation, this limit ends when Envoy has received the last byte,
		// not when it has forwarded that byte.
		RequestTimeout:   seconds(requestTimeout),
		LocalReplyConfig: b.localReplies(),
		AccessLog:        b.accessLogs(cfg, owner),
		AccessLogOptions: renewals(),
		Tracing:          b.tracing(cfg),
	}
}

func (b *builder) strip(headers []*mutationv3.HeaderMutation) []*corev3.TypedExtensionConfig {
	return []*corev3.TypedExtensionConfig{b.extension("strip", &earlyv3.HeaderMutation{Mutations: headers})}
}

func setHeader(name, value string) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: overwrite(name, value)}}
}

func overwrite(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
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

func inline(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

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
		CustomTags: []*tracingv3.CustomTag{{ // Envoy's own tag includes the query
			Tag: "http.url", Type: &tracingv3.CustomTag_Value{
				Value: "%REQ(X-FORWARDED-PROTO)%://%REQ(:AUTHORITY)%" + pathWithoutQuery,
			},
		}},
		Provider: &tracev3.Tracing_Http{
			Name: "envoy.tracers.opentelemetry",
			ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: b.any(&tracev3.OpenTelemetryConfig{
				GrpcService: b.grpc(model.Collector),
				ServiceName: service,
			})},
		},
	}
}
