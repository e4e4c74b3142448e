package bootstrap

import (
	"fmt"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	internallistenerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/bootstrap/internal_listener/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	downstreamconnectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	fixedheapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"sigs.k8s.io/yaml"
)

const adsCluster = "xds"

// YAML returns the bootstrap with sorted keys.
func YAML(c Config) ([]byte, error) {
	msg, err := New(c)
	if err != nil {
		return nil, err
	}
	json, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode the bootstrap: %w", err)
	}
	out, err := yaml.JSONToYAML(json) // removes protojson's random spaces
	if err != nil {
		return nil, fmt.Errorf("encode the bootstrap: %w", err)
	}
	return out, nil
}

// With the default of 50 s, Envoy 1.40 crashes at the end of a longer call, such as to the external
// picker.
const callsLast = 7 * 24 * time.Hour

// New returns the bootstrap message.
func New(c Config) (*bootstrapv3.Bootstrap, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	b := builder{}
	msg := &bootstrapv3.Bootstrap{
		Node:             node(c),
		Admin:            &bootstrapv3.Admin{Address: mustAddress(c.Admin).proto()},
		DynamicResources: dynamicResources(),
		StaticResources:  &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{b.adsCluster(c)}},
		BootstrapExtensions: []*corev3.TypedExtensionConfig{{
			// Internal listeners need this registry, which cannot be added later.
			Name:        "envoy.bootstrap.internal_listener",
			TypedConfig: b.any(&internallistenerv3.InternalListener{}),
		}},
		OverloadManager:     b.overload(c),
		DeferredStatOptions: &bootstrapv3.Bootstrap_DeferredStatOptions{EnableDeferredCreationStats: true},
		ClusterManager:      &bootstrapv3.ClusterManager{EnableDeferredClusterCreation: true},
		LayeredRuntime:      runtime(),
		GrpcAsyncClientManagerConfig: &bootstrapv3.Bootstrap_GrpcAsyncClientManagerConfig{
			MaxCachedEntryIdleDuration: durationpb.New(callsLast),
		},
	}
	if c.Ready != "" {
		msg.StaticResources.Listeners = append(msg.StaticResources.Listeners, b.readyListener(c))
	}
	if b.err != nil {
		return nil, fmt.Errorf("bootstrap: %w", b.err)
	}
	if err := merge(msg, c.Extra); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	return msg, nil
}

func node(c Config) *corev3.Node {
	n := &corev3.Node{Id: c.NodeID, Cluster: c.Gateway}
	if c.Zone != "" {
		n.Locality = &corev3.Locality{Zone: c.Zone}
	}
	if c.Profile != "" {
		n.Metadata = &structpb.Struct{
			Fields: map[string]*structpb.Value{ProfileKey: structpb.NewStringValue(c.Profile)},
		}
	}
	return n
}

func dynamicResources() *bootstrapv3.Bootstrap_DynamicResources {
	source := func() *corev3.ConfigSource {
		return &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			ResourceApiVersion:    corev3.ApiVersion_V3,
			// By default, a proxy without a control plane answers 404 after a timeout.
			InitialFetchTimeout: durationpb.New(0),
		}
	}
	return &bootstrapv3.Bootstrap_DynamicResources{
		CdsConfig: source(),
		LdsConfig: source(),
		AdsConfig: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_DELTA_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{
				TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
					ClusterName: adsCluster,
					// With the default (0.5 s to 30 s) a proxy took up to 14 s to reconnect.
					RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
						BaseInterval: durationpb.New(100 * time.Millisecond),
						MaxInterval:  durationpb.New(500 * time.Millisecond),
					}},
				}},
			}},
		},
	}
}

func runtime() *bootstrapv3.LayeredRuntime {
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name: "static",
		LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: &structpb.Struct{Fields: map[string]*structpb.Value{
			// The default of 100 rejects regular expressions such as a{1,1000}.
			"re2.max_program_size.error_level": structpb.NewNumberValue(100_000),
			"re2.max_program_size.warn_level":  structpb.NewNumberValue(100_000),
			// By default, a connection to the external picker ends every ~1,050 streams.
			"envoy.reloadable_features.ext_proc_graceful_grpc_close": structpb.NewBoolValue(true),
		}}},
	}}}
}

type builder struct{ err error }

func (b *builder) any(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil && b.err == nil {
		b.err = err
	}
	return out
}

func (b *builder) adsCluster(c Config) *clusterv3.Cluster {
	names := false
	group := &endpointv3.LocalityLbEndpoints{}
	for _, s := range c.ADS {
		a := mustAddress(s)
		if a.path == "" && !a.isIP() {
			names = true
		}
		group.LbEndpoints = append(group.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: a.proto()}},
		})
	}
	out := &clusterv3.Cluster{
		Name:                 adsCluster,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(time.Second),
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: adsCluster, Endpoints: []*endpointv3.LocalityLbEndpoints{group},
		},
		UpstreamConnectionOptions: &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{
			KeepaliveProbes: wrapperspb.UInt32(3), KeepaliveTime: wrapperspb.UInt32(10),
			KeepaliveInterval: wrapperspb.UInt32(3),
		}},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": b.any(&httpv3.HttpProtocolOptions{
				HttpFilters: b.tokenFilters(c),
				UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
						// These pings detect a frozen control plane within 14 s. A ping each 5 s
						// from 1,000 proxies takes 1 % of a core.
						ConnectionKeepalive: &corev3.KeepaliveSettings{
							Interval: durationpb.New(10 * time.Second), Timeout: durationpb.New(3 * time.Second),
						},
					}},
				}},
			}),
		},
	}
	if names { // each IP address of a name is a control plane
		out.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			Name:        "envoy.cluster.dns",
			TypedConfig: b.any(&dnsv3.DnsCluster{RespectDnsTtl: true, DnsRefreshRate: durationpb.New(5 * time.Second)}),
		}}
	}
	if c.TLS != nil {
		out.TransportSocket = b.tls(c)
	}
	return out
}

func (b *builder) tls(c Config) *corev3.TransportSocket {
	common := &tlsv3.CommonTlsContext{
		// Envoy's default maximum for clients is TLS 1.2.
		TlsParams: &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3},
		AlpnProtocols: []string{"h2"},
	}
	if c.Secrets != "" {
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{
			ValidationContextSdsSecretConfig: c.fromFile(secretCA),
		}
		if c.TLS.Cert != "" {
			common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{c.fromFile(secretCertificate)}
		}
	} else {
		common.ValidationContextType =
			&tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
				TrustedCa: file(c.TLS.CA), MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{c.serverName()},
			}}
		if c.TLS.Cert != "" {
			common.TlsCertificates = []*tlsv3.TlsCertificate{
				{CertificateChain: file(c.TLS.Cert), PrivateKey: file(c.TLS.Key)},
			}
		}
	}
	context := &tlsv3.UpstreamTlsContext{CommonTlsContext: common}
	if name := c.serverName(); name.SanType == tlsv3.SubjectAltNameMatcher_DNS { // an IP address is not a server name
		context.Sni = name.Matcher.GetExact()
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: b.any(context)},
	}
}

func (c Config) serverName() *tlsv3.SubjectAltNameMatcher {
	name := c.TLS.ServerName
	if name == "" {
		name = mustAddress(c.ADS[0]).host
	}
	kind := tlsv3.SubjectAltNameMatcher_DNS
	if (address{host: name}).isIP() {
		kind = tlsv3.SubjectAltNameMatcher_IP_ADDRESS
	}
	return &tlsv3.SubjectAltNameMatcher{SanType: kind,
		Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}}}
}

// Near the memory limit, Envoy resets the requests that buffer most.
func (b *builder) overload(c Config) *overloadv3.OverloadManager {
	const heap = "envoy.resource_monitors.fixed_heap"
	action := func(name string, at float64) *overloadv3.OverloadAction {
		return &overloadv3.OverloadAction{Name: name, Triggers: []*overloadv3.Trigger{{
			Name:         heap,
			TriggerOneof: &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: at}},
		}}}
	}
	scaled := func(name string, from, to float64) *overloadv3.OverloadAction {
		return &overloadv3.OverloadAction{Name: name, Triggers: []*overloadv3.Trigger{{
			Name: heap,
			TriggerOneof: &overloadv3.Trigger_Scaled{
				Scaled: &overloadv3.ScaledTrigger{ScalingThreshold: from, SaturationThreshold: to},
			},
		}}}
	}
	monitor := func(name string, m proto.Message) *overloadv3.ResourceMonitor {
		return &overloadv3.ResourceMonitor{Name: name,
			ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: b.any(m)}}
	}
	return &overloadv3.OverloadManager{
		RefreshInterval: durationpb.New(250 * time.Millisecond),
		ResourceMonitors: []*overloadv3.ResourceMonitor{
			monitor("envoy.resource_monitors.global_downstream_max_connections",
				&downstreamconnectionsv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: c.MaxConnections}),
			monitor(heap, &fixedheapv3.FixedHeapConfig{MaxHeapSizeBytes: c.MaxHeapBytes}),
		},
		Actions: []*overloadv3.OverloadAction{
			// Envoy does not track the memory of HTTP/1.1 streams.
			scaled("envoy.overload_actions.reset_high_memory_stream", 0.75, 0.9),
			action("envoy.overload_actions.shrink_heap", 0.85),
			action("envoy.overload_actions.stop_accepting_requests", 0.97),
		},
		// Envoy resets streams by classes of buffered memory: from 32 MiB, the maximum of a body,
		// down to 256 KiB (2^18 bytes).
		BufferFactoryConfig: &overloadv3.BufferFactoryConfig{MinimumAccountToTrackPowerOfTwo: 18},
	}
}

func mustAddress(s string) address {
	a, _ := parseAddress(s)
	return a
}

func (a address) proto() *corev3.Address {
	if a.path != "" {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: a.path}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: a.host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: a.port},
	}}}
}
